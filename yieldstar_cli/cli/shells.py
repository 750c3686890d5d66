"""The completion scripts of each shell, and where each looks for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

#: Every script of ours begins with this, after the first line that zsh needs.
MARK = "# Completion of ys lines; made by: ys completion"

# What is completed is up to `ys _complete`; bash breaks words at = and :, so it gets the line.
_BASH = f"""\
{MARK} bash
_ys() {{
    local value IFS=$'\\n'
    COMPREPLY=()
    while read -r value; do
        COMPREPLY+=("$value")
    done < <(COMP_LINE="${{COMP_LINE:0:COMP_POINT}}" "$1" _complete bash "$2" 2>/dev/null)
    if [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *[/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}}
complete -F _ys ys
"""
_ZSH = f"""\
#compdef ys
{MARK} zsh
_ys() {{
    local value about
    local -a values shown
    while IFS=$'\\t' read -r value about; do
        values+=("$value")
        shown+=("$value${{about:+  -- $about}}")
    done < <("${{words[1]}}" _complete zsh "${{(@Q)words[2,CURRENT]}}" 2>/dev/null)
    compadd -l -d shown -a values
}}
if [[ ${{funcstack[1]}} == _ys ]]; then
    _ys "$@"
else
    compdef _ys ys
fi
"""
_FISH = f"""\
{MARK} fish
function __ys_complete
    set -l before (commandline -opc)
    $before[1] _complete fish $before[2..-1] (commandline -ct) 2>/dev/null
end
complete -c ys -k -f -a '(__ys_complete)'
"""

SCRIPTS: Mapping[str, str] = MappingProxyType({"bash": _BASH, "zsh": _ZSH, "fish": _FISH})

#: What is to be done after the script was put in its place.
AFTERWARDS: Mapping[str, str] = MappingProxyType(
    {
        "bash": "It works in new shells, where the package bash-completion is loaded.",
        "zsh": "In ~/.zshrc, before compinit:  fpath+=(~/.local/share/zsh/site-functions)",
        "fish": "It works in new shells.",
    }
)


def place_of(shell: str, env: Mapping[str, str]) -> str | None:
    """Where `shell` looks for this user's completions; None where no home is known."""
    home = env.get("HOME")
    data = env.get("XDG_DATA_HOME") or (home and f"{home}/.local/share")
    config = env.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    places = {
        "bash": data and f"{data}/bash-completion/completions/ys",
        "zsh": data and f"{data}/zsh/site-functions/_ys",
        "fish": config and f"{config}/fish/completions/ys.fish",
    }
    return places[shell] or None


def is_ours(place: str) -> bool:
    """Whether the file there is a script of ours."""
    try:
        with open(place, encoding="utf-8", errors="replace") as file:
            return any(line.startswith(MARK) for line in (file.readline(), file.readline()))
    except OSError:
        return False


def installed(env: Mapping[str, str]) -> list[str]:
    """The shells that complete `ys` lines for this user."""
    places = {shell: place_of(shell, env) for shell in SCRIPTS}
    return [shell for shell, place in places.items() if place and os.path.isfile(place)]


def told(env: Mapping[str, str]) -> str:
    """For which shells it is installed, in one sentence."""
    found = installed(env)
    if not found:
        return "completion of ys lines is not installed: ys completion bash|zsh|fish --install"
    return f"completion of ys lines is installed for {' and '.join(found)}"
