/** The boxes at the runner, with the commands that run in them. Callers of the daemon have no token for the runner. */
import type { BoxOverview } from '@breakfall/wire'
import type { RunnerEndpoint } from '../runner/endpoint.ts'

const BOXES_ASKED_MAX = 100 // for their commands: the others are listed without them

/** Nothing if no runner is known: a look at the list starts none. */
export async function boxesAt(runner: RunnerEndpoint, signal: AbortSignal): Promise<BoxOverview> {
  if (runner.address === undefined) return { boxes: [] }
  const { client } = await runner.connect(null, 0, signal)
  const boxes = await client.listBoxes({ signal })
  const asked = new Set(boxes.filter(({ state }) => state === 'running').slice(0, BOXES_ASKED_MAX))
  return {
    boxes: await Promise.all(
      boxes.map(async (box) => {
        if (!asked.has(box)) return { ...box, execs: [] }
        const execs = await client.listExecs(box.id, { signal }).catch(() => []) // removed meanwhile
        return { ...box, execs: execs.filter(({ state }) => state !== 'exited') }
      }),
    ),
  }
}
