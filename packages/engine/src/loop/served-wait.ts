/**
 * Waits for the model server that the daemon runs, and journals meanwhile what it is doing, for people who wait with it.
 *
 * I1  At most one event a second, fewer in a long wait, and only if its state or its last line changed.
 */
import type { LocalModel, LocalModelRequest } from '../model-server.ts'
import type { OwnedSession } from '../session/owned-session.ts'

export async function waitForServer(session: OwnedSession, local: LocalModel): Promise<LocalModelRequest> {
  const { signal, clock } = session
  const request = local.request(signal)
  const settled = request.then(
    () => true,
    () => true, // the caller sees why
  )
  let shown = ''
  for (let events = 0, pauseMs = FIRST_MS; ; pauseMs = events < OFTEN_MAX ? EVERY_MS : LATER_EVERY_MS) {
    if ((await clock.within(settled, pauseMs, { signal })) === true || signal.aborted) return request
    const { state, since, line } = local.status
    const draft = { type: 'model-server', turnId: session.currentTurn.id, state, since } as const
    const said = JSON.stringify([state, since, line])
    if (said === shown) continue
    shown = said
    events += 1
    try {
      await session.append(line === null ? draft : { ...draft, line }) // I1
    } catch (thrown) {
      void request.then((late) => late[Symbol.dispose](), ignoreRefusal) // it has no user any more
      throw thrown
    }
  }
}

// ---- details ----

/** What failed first is what the turn reports. */
function ignoreRefusal(): void {}

const FIRST_MS = 100 // a shorter wait is not worth an event
const EVERY_MS = 1_000
const OFTEN_MAX = 60
const LATER_EVERY_MS = 10_000
