/** A session's events over SSE, from as many connections as it takes. */
import type { SessionEvent } from '@breakfall/wire'
import { openStream, streamItems, type StreamItem } from './connection.ts'
import { type ClientCore, operation } from './core.ts'
import { type EventsOptions, readEvents } from './events.ts'
import type { Cursor } from './position.ts'
import { FOREVER, LIVENESS_MS, UNREACHABLE_ATTEMPTS } from './limits.ts'

export function followSession(
  core: ClientCore,
  sessionId: string,
  options: EventsOptions,
): AsyncGenerator<SessionEvent> {
  const signals = [core.options.signal, options.signal].filter((signal) => signal !== undefined)
  const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0]
  return readEvents(
    {
      connect: (cursor) => stream(core, sessionId, cursor, signal),
      retrying: (act, failed) =>
        core.retrying(act, {
          signal,
          failed,
          policy: core.options.policy ?? FOREVER,
          onRetry: ({ attempt }) => {
            if (attempt === UNREACHABLE_ATTEMPTS) options.onUnreachable?.(core.address.url)
          },
        }),
    },
    { ...options, signal },
  )
}

// ---- details ----

async function* stream(
  core: ClientCore,
  sessionId: string,
  cursor: Cursor | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamItem> {
  const options = { address: core.address, livenessMs: core.options.livenessMs ?? LIVENESS_MS, signal }
  const headers = {
    accept: 'text/event-stream',
    ...(cursor === undefined ? {} : { 'last-event-id': String(cursor) }),
  }
  const request = operation('GET /v1/sessions/{id}/events', { id: sessionId }, { headers })
  const response = await openStream((opening) => core.send({ ...request, signal: opening }), options)
  yield* streamItems(response, options)
}
