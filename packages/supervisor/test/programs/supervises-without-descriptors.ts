// Supervises while the process has almost no descriptors left, and prints the result. Run it with a small `ulimit -n`.
import { closeSync, openSync } from 'node:fs'
import { isFault } from '@breakfall/faults'
import { supervise, type Supervised } from '../../src/index.ts'
import { reaper } from '../../src/reaper.ts'

const held: number[] = []

function exhaust(free: number): void {
  try {
    for (;;) held.push(openSync('/dev/null', 'r'))
  } catch {
    // EMFILE, as intended
  }
  for (let count = 0; count < free; count += 1) closeSync(held.pop() ?? -1)
}

function release(): void {
  for (const fd of held.splice(0)) closeSync(fd)
}

const child = (): Supervised =>
  supervise({
    command: 'sh',
    args: ['-c', 'echo up; (setsid sleep 30 &); read -r _; exit 3'],
    ready: { kind: 'line', pattern: /^up$/ },
    limits: { failuresMax: 100, drainMs: 200, backoffMs: 20 },
  })

/** Starts with this few descriptors. Once there are enough again, the child must start without help. */
async function startWith(free: number): Promise<Record<string, unknown>> {
  await using one = child()
  exhaust(free)
  const category = await one.start().then(
    () => 'ready',
    (error: unknown) => (isFault(error) ? `${error.category} ${error.report.next}` : String(error)),
  )
  release()
  await one.ready()
  return { free, category, later: one.state.status }
}

const starts = []
for (let free = 0; free <= 12; free += 1) starts.push(await startWith(free))

await using last = child()
await last.start()
exhaust(0)
const over = new Promise((resolve) => {
  last.on((event) => event.type === 'exit' && resolve([event.report.kind, event.report.code]))
})
await last.write('\n')
const exit = await over
release()
console.log(JSON.stringify({ starts, exit, hasReaper: reaper.pid !== undefined }))
