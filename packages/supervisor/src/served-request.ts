/**
 * A request to a model server, tied to the boot that serves it: when that boot fails, the request fails with the reason.
 *
 * I1  A failure at the socket is not the last word. The socket breaks a moment before the exit is noticed, so the supervisor gets
 *     time to report why the server failed.
 * I2  A model's answer has no side effect, so its fault says `none` and the caller may ask again.
 * I3  The reason is that of this boot. An earlier crash is never blamed for a failure after the restart.
 */
import type { Fault, FaultCategory } from '@breakfall/faults'
import { within } from '@breakfall/faults/internal'
import type { ServeLog } from './serve-log.ts'
import type { Supervised } from './supervised.ts'

export type ServedRequest = Disposable & {
  /** The address of this boot, such as `http://127.0.0.1:41231`. */
  readonly url: string
  /** Aborted, with the fault as the reason, when this boot fails. */
  readonly signal: AbortSignal
  /** The real reason for a failure that the caller saw: the crash of this boot if there was one, else the same. Names the boot. */
  readonly judge: (seen: Fault) => Promise<Fault>
  /** The server sent something, or is being waited for again. */
  readonly progress: () => void
  /** The caller is not reading. The server's silence counts again from the next `progress`. */
  readonly hold: () => void
}

/** Throws a fault if the server is not ready. `signal` is the caller's own: once it fires, `judge` waits no longer. */
export function openServedRequest(
  supervised: Supervised,
  log: ServeLog,
  url: string,
  signal?: AbortSignal,
): ServedRequest {
  const request = supervised.request({ pure: true }) // I2
  const { boot } = log
  request.sent()
  const judge = async (seen: Fault): Promise<Fault> => {
    if (request.signal.aborted) return request.failed // I3
    if (!SIGNS_OF_A_CRASH.has(seen.category)) return seen
    const early = await within(request.failed, EXIT_MS, { signal }) // I1
    if (early !== undefined) return early
    if (supervised.serving) await within(supervised.checkListening(), CHECK_MS, { signal })
    if (supervised.serving) return seen
    return (await within(request.failed, VERDICT_MS, { signal })) ?? seen
  }
  return {
    url,
    signal: request.signal,
    progress: request.progress,
    hold: request.hold,
    judge: async (seen) => log.explain(await judge(seen), boot),
    [Symbol.dispose]: request.done,
  }
}

// ---- details ----

const EXIT_MS = 500 // a process that dies closes its sockets and is collected almost at once, even on a busy machine
const CHECK_MS = 6_000 // longer than its probe takes at most
const VERDICT_MS = 10_000 // drain, stop ladder and judgement of a process that is known to be ending

/** How a crashed server looks from the other end of its socket. A refusal with a status comes from a living one. */
const SIGNS_OF_A_CRASH: ReadonlySet<FaultCategory> = new Set([
  'model_unreachable',
  'model_stream_interrupted',
  'model_stream_incomplete',
  'model_stream_stalled',
  'other',
] satisfies FaultCategory[])
