/** The watch over SSE: a snapshot, then every change. Over a WebSocket it is the method `watch`. */
import type { RequestContext } from '@breakfall/wire/node'
import { SseResponse } from '@breakfall/wire/node'
import type { WatchHub } from '@breakfall/engine'
import type { DaemonLimits } from '../options.ts'

export async function streamWatch(context: RequestContext, hub: WatchHub, limits: DaemonLimits): Promise<void> {
  const sse: SseResponse = new SseResponse(context.res, { heartbeatMs: limits.heartbeatMs })
  const watch = await hub.watch({
    send: async (changes) => {
      for (const change of changes) sse.send({ event: 'watch', data: JSON.stringify(change) })
      await takenWithin(sse.drained(), limits.readerStallMsMax, () => context.res.destroy())
    },
  })
  if (context.signal.aborted) return watch.end()
  sse.send({ event: 'snapshot', data: JSON.stringify(watch.snapshot) })
  watch.start()
  await new Promise<void>((resolve) => {
    context.signal.addEventListener('abort', () => resolve(), { once: true })
  })
  watch.end()
}

/** Gives up on a reader that takes nothing for that long. */
export async function takenWithin(taken: Promise<unknown>, ms: number, giveUp: () => void): Promise<void> {
  const timer = setTimeout(giveUp, ms)
  timer.unref()
  await taken
  clearTimeout(timer)
}
