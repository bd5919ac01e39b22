/** Errors that arrive inside a stream that began with status 200, in the shapes that servers use for them. */
import { Fault, redactStart, statusCategory, type StatusVerdict } from '@breakfall/faults'
import { bodyMessage, bodyRetryMs } from '@breakfall/faults/internal'
import { type JsonObject, objectOr } from '../lib/json.ts'

export function isInBandError(json: JsonObject): boolean {
  const { error, object, type } = json
  if (error != null && error !== false) return true
  return object === 'error' || type === 'error' // vLLM; Anthropic
}

export function inBandFault(json: JsonObject): Fault {
  const { error } = json
  // Ollama: `{"error":"model runner has unexpectedly stopped"}`.
  const text = typeof error === 'string' ? redactStart(error, 300) : undefined
  const { category, historyCause } = verdictOf(json)
  return new Fault(category, {
    boundary: 'model',
    phase: 'stream',
    reason: historyCause,
    facts: { detail: bodyMessage(json) ?? text },
    errorRaw: JSON.stringify(json),
    retryAfterMs: bodyRetryMs(json),
  })
}

/** A frame that is not the JSON object it should be. */
export function notJson(data: string, cause: unknown): Fault {
  return new Fault('model_stream_interrupted', {
    phase: 'stream',
    errorRaw: `a frame of the stream is not the JSON it should be: ${redactStart(data, 200)}`,
    cause,
  })
}

// ---- details ----

function verdictOf(json: JsonObject): StatusVerdict {
  const verdict = statusCategory({ status: 200, body: json }, 'model')
  // All it says is "your request is wrong": the same request would get the same answer.
  const isRequest = verdict.category === 'model_server_error' && isRequestError(json)
  return isRequest ? { ...verdict, category: 'model_bad_request' } : verdict
}

function isRequestError(json: JsonObject): boolean {
  const type = objectOr(json['error'])['type'] ?? json['type']
  return type === 'invalid_request_error' || type === 'BadRequestError'
}
