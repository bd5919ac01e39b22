/** Errors that arrive inside a stream that began with status 200, in the shapes that servers use for them. */
import { Fault, type FaultCategory, bodyMessage, redactStart, statusCategory } from '@breakfall/faults'

/** The error object of a frame, or undefined where the frame is none. */
export function inBandError(json: object): unknown {
  const frame = json as { error?: unknown; object?: unknown; type?: unknown }
  if (frame.error != null && frame.error !== false) return json
  if (frame.object === 'error' || frame.type === 'error') return json // vLLM; Anthropic
  return undefined
}

export function inBandFault(body: unknown): Fault {
  const category = categoryOf(body)
  const detail = bodyMessage(body) ?? textOf(body)
  return new Fault(category, {
    boundary: 'model',
    phase: 'stream',
    facts: { detail },
    errorRaw: JSON.stringify(body),
  })
}

// ---- details ----

function categoryOf(body: unknown): FaultCategory {
  const { category } = statusCategory({ status: 200, body }, 'model')
  // Named by nothing else than "your request is wrong": asking again would be answered the same.
  if (category === 'model_server_error' && isRequestError(body)) return 'model_bad_request'
  return category
}

function isRequestError(body: unknown): boolean {
  const error = (body as { error?: { type?: unknown } }).error
  const type =
    (typeof error === 'object' && error !== null ? error.type : undefined) ?? (body as { type?: unknown }).type
  return type === 'invalid_request_error' || type === 'BadRequestError'
}

/** Ollama: `{"error":"model runner has unexpectedly stopped"}`. */
function textOf(body: unknown): string | undefined {
  const { error } = body as { error?: unknown }
  return typeof error === 'string' ? redactStart(error, 300) : undefined
}
