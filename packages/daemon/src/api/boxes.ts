/** The boxes at all runners, with the commands that run in them. Callers of the daemon have no token for a runner. */
import type { BoxOverview } from '@breakfall/wire'
import type { ConnectedRunner, Runners } from '@breakfall/engine'

const BOXES_ASKED_MAX = 100 // for their commands: the others are listed without them
const ANSWER_MS = 3_000 // a frozen runner must not hide the others

/** Nothing if no runner is known: a look at the list starts none. */
export async function boxesAt(runners: Pick<Runners, 'all'>, caller: AbortSignal): Promise<BoxOverview> {
  const signal = AbortSignal.any([caller, AbortSignal.timeout(ANSWER_MS)])
  const all = [...(await runners.all(signal))]
  const listed = all.map(async ([, connect]) => boxesOf(await connect(), signal))
  const [only] = listed
  if (only !== undefined && all.length === 1) return { boxes: await only }
  const settled = await Promise.allSettled(listed)
  const unreachable = all.flatMap(([id], at) => (settled[at]?.status === 'rejected' ? [id] : []))
  const boxes = settled.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
  return { boxes, ...(unreachable.length > 0 && { unreachable }) }
}

// ---- details ----

async function boxesOf({ client, address }: ConnectedRunner, signal: AbortSignal): Promise<BoxOverview['boxes']> {
  const { runnerId } = address
  const boxes = await client.listBoxes({ signal })
  const asked = new Set(boxes.filter(({ state }) => state === 'running').slice(0, BOXES_ASKED_MAX))
  return Promise.all(
    boxes.map(async (box) => {
      if (!asked.has(box)) return { ...box, runnerId, execs: [] }
      const execs = await client.listExecs(box.id, { signal }).catch(() => []) // removed meanwhile
      return { ...box, runnerId, execs: execs.filter(({ state }) => state !== 'exited') }
    }),
  )
}
