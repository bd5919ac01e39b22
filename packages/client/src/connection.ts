/** One connection to an event stream: bytes in, SSE frames and heartbeats out. Silence for too long ends it with a fault. */
import { type ReportedFault, reportedFault } from '@breakfall/faults/caller'
import { brokenStream } from './call-fault.ts'
import type { DaemonAddress } from './address.ts'
import { SseDecoder, type SseFrame } from './wire.ts'

export type StreamItem = SseFrame | 'heartbeat'

export type ConnectionOptions = {
  readonly address: DaemonAddress
  readonly livenessMs: number
  readonly signal: AbortSignal | undefined
}

/** Waits for the response. A server or a proxy that accepts the connection and says nothing is as silent as a dead stream. */
export async function openStream(
  open: (signal: AbortSignal) => Promise<Response>,
  { address, livenessMs, signal }: ConnectionOptions,
): Promise<Response> {
  const silence = new AbortController()
  const timer = setTimeout(() => silence.abort(silentFault(address.url, livenessMs)), livenessMs)
  try {
    return await open(signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal]))
  } finally {
    clearTimeout(timer)
  }
}

/** Closes the connection when the caller stops reading. An event that was cut off is not delivered. */
export async function* streamItems(response: Response, options: ConnectionOptions): AsyncGenerator<StreamItem> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  const ready: StreamItem[] = []
  const decoder = new SseDecoder({
    onEvent: (frame) => void ready.push(frame),
    onComment: () => void ready.push('heartbeat'),
  })
  try {
    for (;;) {
      const { done, value } = await unlessSilent(reader.read(), options)
      if (done) return
      decoder.push(value)
      yield* ready.splice(0)
    }
  } catch (thrown) {
    throw brokenStream(thrown, options.address, options.signal)
  } finally {
    await reader.cancel().catch(() => undefined) // broken already: there is nothing left to close
  }
}

// ---- details ----

async function unlessSilent<T>(reading: Promise<T>, { address, livenessMs }: ConnectionOptions): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  // Not Promise.withResolvers: Node 20 has none, and a stream that throws at its start looks like a daemon that is away.
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(silentFault(address.url, livenessMs)), livenessMs)
  })
  try {
    return await Promise.race([reading, silence])
  } finally {
    clearTimeout(timer)
  }
}

const silentFault = (url: string, livenessMs: number): ReportedFault =>
  reportedFault('daemon_unreachable', {
    error: `The daemon at ${url} has sent nothing for ${livenessMs / 1000} s. Reconnecting.`,
    errorRaw: `silent for ${livenessMs} ms`,
  })
