/** The span of one attempt: a request to a model server, as OpenTelemetry's HTTP conventions describe it. */
import type { AttemptEnd, AttemptRequest } from './attempt.ts'
import { serverOf } from '../telemetry/chat-span.ts'
import { TELEMETRY } from '../telemetry/names.ts'
import { type Span, startSpan } from '../telemetry/spans.ts'

const { attributes: A } = TELEMETRY

/** The request with the header that makes the server's spans children of this attempt, and the attempt's span. */
export function tracedRequest(request: AttemptRequest): {
  readonly request: AttemptRequest
  readonly span: Span | undefined
} {
  const { trace, method = 'POST', url } = request
  if (trace === undefined) return { request, span: undefined }
  const span = startSpan(method, {
    kind: 'client',
    parent: trace.traceparent,
    attributes: {
      [A.method]: method,
      ...serverOf(url),
      [A.resendCount]: trace.attempt - 1,
      [A.backoffMs]: trace.backoffMs,
    },
  })
  const { traceparent } = span
  if (traceparent === undefined) return { request, span }
  return { request: { ...request, headers: { ...request.headers, traceparent } }, span }
}

export function endAttemptSpan(
  span: Span | undefined,
  status: number | undefined,
  { phase, fault, refusal }: AttemptEnd,
): void {
  if (span === undefined) return
  span.set({ [A.status]: refusal?.status ?? status, [A.phase]: phase })
  span.end(fault?.category ?? (refusal === undefined ? undefined : String(refusal.status)))
}
