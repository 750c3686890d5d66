// Yieldstar (TypeScript on Bun) with its own SQLite runtime, as of October 2024: one process that
// enqueues, and then drains with its event loop. It obeys the words of common.py's programs, and
// needs a built checkout, since it is in no registry: YIELDSTAR, else .bench/yieldstar.

import { resolve } from "node:path";

const STEPS_EACH = 10;

const root = process.env.YIELDSTAR ?? resolve(import.meta.dir, "../../.bench/yieldstar");
const room = (name: string) => import(`${root}/packages/${name}/dist/index.js`);

function word(name: string, otherwise: string): string {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
}

async function measured(folder: string, work: string, count: number) {
  const { createWorkflow } = await room("yieldstar");
  const { WorkflowRunner } = await room("core");
  const sqlite = await room("bun-sqlite-runtime");
  const router = {
    one: createWorkflow(async function* (step: any) {
      return yield* step.run(() => 1);
    }),
    ten: createWorkflow(async function* (step: any) {
      let n = 0;
      for (let turn = 0; turn < STEPS_EACH; turn++) n = yield* step.run(() => n + 1);
      return n;
    }),
  };
  const db = await sqlite.createSqliteDb(`${folder}/yieldstar.db`);
  const loop = new sqlite.SqliteEventLoop(db);
  const queue = new sqlite.SqliteTaskQueueClient(db);
  const timers = new sqlite.SqliteTimersClient(db);
  const runner = new WorkflowRunner({
    heapClient: new sqlite.SqliteHeapClient(db),
    schedulerClient: new sqlite.SqliteSchedulerClient({ taskQueueClient: queue, timersClient: timers }),
    router,
  });

  const enqueuing = performance.now();
  for (let n = 0; n < count; n++) queue.add({ workflowId: work, executionId: `it-${n}` });
  const enqueued = (performance.now() - enqueuing) / 1000;

  let done = 0;
  const draining = performance.now();
  await new Promise<void>((finished) => {
    loop.start({
      onNewTask: async (task: any) => {
        const ended = await runner.run(task);
        if (ended?.type !== "workflow-result") return;
        done += 1;
        if (done === count) finished();
      },
    });
  });
  const drained = (performance.now() - draining) / 1000;
  const steps = count * (work === "ten" ? STEPS_EACH : 1);
  return {
    enqueued_per_s: count / enqueued,
    drained_per_s: count / drained,
    steps_per_s: steps / drained,
  };
}

const folder = word("dir", "");
console.log(JSON.stringify(await measured(folder, word("work", "one"), Number(word("count", "10")))));
process.exit(0);
