/** The boxes at the runners, with the commands that run in them. Callers of the daemon have no token for a runner. */
import type { BoxOverview } from '@breakfall/wire'
import type { Runners } from '../runner/runners.ts'

const BOXES_ASKED_MAX = 100 // for their commands: the others are listed without them

/** Nothing if no runner is known: a look at the list starts none. */
export async function boxesAt(runner: Runners, signal: AbortSignal): Promise<BoxOverview> {
  const ids = runner.known
  const at = ids.map((runnerId) => boxesOf(runner, runnerId, signal))
  const found = ids.length === 1 ? await Promise.all(at) : (await Promise.allSettled(at)).map(orNothing)
  return { boxes: found.flat() }
}

// ---- details ----

async function boxesOf(runner: Runners, runnerId: string, signal: AbortSignal): Promise<BoxOverview['boxes']> {
  const { client } = await runner.connect(runnerId, 0, signal)
  const boxes = await client.listBoxes({ signal })
  const asked = new Set(boxes.filter(({ state }) => state === 'running').slice(0, BOXES_ASKED_MAX))
  return Promise.all(
    boxes.map(async (box) => {
      if (!asked.has(box)) return { ...box, execs: [] }
      const execs = await client.listExecs(box.id, { signal }).catch(() => []) // removed meanwhile
      return { ...box, execs: execs.filter(({ state }) => state !== 'exited') }
    }),
  )
}

/** An unreachable runner must not hide the others. */
const orNothing = (settled: PromiseSettledResult<BoxOverview['boxes']>): BoxOverview['boxes'] =>
  settled.status === 'fulfilled' ? settled.value : []
