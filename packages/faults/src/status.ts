/** What an HTTP status means at a boundary. The typed `code` and `type` of the body's error object count first. */
import { type HistoryCause, historyRefusal, isHistoryStatus } from './history-causes.ts'
import { isReadable, read } from './read.ts'
import { redactStart } from './redact.ts'
import type { Boundary, FaultCategory } from './categories.ts'

export type StatusVerdict = {
  readonly category: FaultCategory
  readonly detail?: string | undefined
  /** The model server is up and still loads its model. */
  readonly isLoading?: boolean
  /** What is wrong with the conversation. */
  readonly historyCause?: HistoryCause | undefined
}

export function statusCategory(
  response: { readonly status: number; readonly body?: unknown },
  boundary: Boundary,
): StatusVerdict {
  switch (boundary) {
    case 'model':
      return modelVerdict(response.status, response.body)
    case 'runner':
    case 'box':
      return { category: runnerCategory(response.status) }
    case 'mcp':
      return { category: mcpCategory(response.status), detail: bodyMessage(response.body) }
    case 'daemon':
    case 'client':
    case 'journal':
    case 'process':
      return { category: response.status === 401 ? 'unauthorized' : response.status === 404 ? 'not_found' : 'other' }
  }
}

/**
 * Typed codes that providers put into `error.code` or `error.type`, in an error response or inside a stream.
 * OpenAI, Azure, Anthropic, llama.cpp, vLLM, Ollama, DeepSeek, OpenRouter, Mistral.
 */
export const PROVIDER_CODES: Readonly<Record<string, FaultCategory>> = {
  context_length_exceeded: 'model_context_overflow',
  exceed_context_size_error: 'model_context_overflow',
  string_above_max_length: 'model_context_overflow',
  request_too_large: 'model_context_overflow',
  insufficient_quota: 'model_quota_exhausted',
  billing_hard_limit_reached: 'model_quota_exhausted',
  billing_error: 'model_quota_exhausted',
  insufficient_user_quota: 'model_quota_exhausted',
  quota_exceeded: 'model_quota_exhausted',
  usage_limit_reached: 'model_quota_exhausted',
  rate_limit_exceeded: 'model_rate_limited',
  rate_limit_error: 'model_rate_limited',
  too_many_requests: 'model_rate_limited',
  slow_down: 'model_rate_limited',
  overloaded_error: 'model_overloaded',
  overloaded: 'model_overloaded',
  server_is_overloaded: 'model_overloaded',
  unavailable_error: 'model_overloaded', // llama.cpp while it loads the model
  engine_overloaded: 'model_overloaded',
  server_error: 'model_server_error',
  internal_error: 'model_server_error',
  internal_server_error: 'model_server_error',
  InternalServerError: 'model_server_error',
  api_error: 'model_server_error',
  timeout_error: 'model_server_error',
  service_unavailable: 'model_overloaded',
  bad_gateway: 'model_server_error',
  vector_store_timeout: 'model_server_error',
  content_filter: 'model_content_filtered',
  content_policy_violation: 'model_content_filtered',
  image_content_policy_violation: 'model_content_filtered',
  misalignment_policy_violation: 'model_content_filtered',
  bio_policy: 'model_content_filtered',
  cyber_policy: 'model_content_filtered',
  ResponsibleAIPolicyViolation: 'model_content_filtered',
  invalid_prompt: 'model_bad_request',
  data_residency_mismatch: 'model_bad_request',
  invalid_image: 'model_bad_request',
  invalid_image_format: 'model_bad_request',
  invalid_image_mode: 'model_bad_request',
  invalid_image_url: 'model_bad_request',
  invalid_base64_image: 'model_bad_request',
  image_too_large: 'model_bad_request',
  image_too_small: 'model_bad_request',
  image_parse_error: 'model_bad_request',
  image_file_too_large: 'model_bad_request',
  image_file_not_found: 'model_bad_request',
  unsupported_image_media_type: 'model_bad_request',
  empty_image_file: 'model_bad_request',
  failed_to_download_image: 'model_bad_request',
  invalid_api_key: 'model_auth_failed',
  authentication_error: 'model_auth_failed',
  permission_error: 'model_auth_failed',
  account_deactivated: 'model_auth_failed',
  tool_use_failed: 'tool_call_truncated', // Groq, with status 400: the model wrote a call that does not parse, and may do better
  model_not_found: 'model_not_found',
  not_found_error: 'model_not_found',
}

/** The category that a provider's error object names, wherever it puts its code. */
export function providerCodeCategory(body: unknown): FaultCategory | undefined {
  for (const error of errorObjects(body)) {
    for (const key of ['code', 'type', 'status']) {
      const value = read(error, key)
      if (typeof value === 'string' && Object.hasOwn(PROVIDER_CODES, value)) return PROVIDER_CODES[value]
    }
    for (const key of ['code', 'status']) {
      const value = read(error, key)
      if (typeof value === 'number' && value >= 400 && value < 600) return modelStatus(value)
    }
  }
  return undefined
}

export function bodyMessage(body: unknown): string | undefined {
  for (const error of errorObjects(body)) {
    // OpenAI and most others say `message`, Ollama has the text itself under `error`, FastAPI under `detail`.
    for (const key of ['message', 'error', 'detail']) {
      const message = read(error, key)
      if (typeof message === 'string' && message !== '') return redactStart(message, 300)
    }
  }
  return undefined
}

/** How long Google's APIs ask to wait: `RetryInfo` in the error's details, `{"retryDelay":"2.5s"}`. */
export function bodyRetryMs(body: unknown): number | undefined {
  for (const error of errorObjects(body)) {
    const details = read(error, 'details')
    if (!Array.isArray(details)) continue
    for (const detail of details) {
      const delay = isReadable(detail) ? read(detail, 'retryDelay') : undefined
      const seconds = typeof delay === 'string' ? /^(\d{1,9}(?:\.\d+)?)s$/.exec(delay)?.[1] : undefined
      if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000)
    }
  }
  return undefined
}

// ---- details ----

function modelVerdict(status: number, body: unknown): StatusVerdict {
  const detail = bodyMessage(body)
  const isLoading = status === 503 && detail !== undefined && LOADING_TEXT.test(detail)
  const category = modelCategory(status, body)
  const historyCause = HISTORY_MAY_BE.has(category) ? historyCauseIn(status, body) : undefined
  if (historyCause !== undefined) return { category: 'model_history_invalid', detail, historyCause }
  return { category, detail, ...(isLoading ? { isLoading } : {}) }
}

/** What a refusal of a broken conversation looks like by its status and code alone. */
const HISTORY_MAY_BE: ReadonlySet<FaultCategory> = new Set([
  'model_bad_request',
  'model_not_found',
  'model_server_error',
])

function historyCauseIn(status: number, body: unknown): HistoryCause | undefined {
  const refusal = historyRefusal(body)
  return refusal !== undefined && isHistoryStatus(status, refusal.cause) ? refusal.cause : undefined
}

/** llama.cpp: "Loading model". Text Generation Inference: "Model NAME is currently loading". */
const LOADING_TEXT = /^loading model|^model \S+ is (?:currently |still )?loading/i

function modelCategory(status: number, body: unknown): FaultCategory {
  const named = providerCodeCategory(body)
  const byStatus = modelStatus(status)
  const byText = categoryOfText(body) ?? byStatus
  if (named === undefined) return byText
  // A server that answers 5xx has failed, regardless of its error object; a 4xx is as specific as its code.
  if (status >= 500) return named === 'model_overloaded' || named === 'model_rate_limited' ? named : byText
  // A genuine 4xx is never retried: some servers call every error `api_error`.
  if (named === 'model_server_error') return byStatus
  return named
}

function modelStatus(status: number): FaultCategory {
  if (status === 401 || status === 403) return 'model_auth_failed'
  if (status === 402) return 'model_quota_exhausted'
  if (status === 404) return 'model_not_found'
  if (status === 408 || status === 409) return 'model_server_error'
  if (status === 413) return 'model_context_overflow'
  if (status === 429) return 'model_rate_limited'
  if (status === 503 || status === 529) return 'model_overloaded'
  if (status >= 500) return 'model_server_error'
  if (status >= 400) return 'model_bad_request'
  if (status >= 300) return 'model_endpoint_invalid' // a redirect: the key must not follow it, and a retry would get the same answer
  return 'model_server_error' // 1xx instead of an answer
}

/** What only the text shows. Each row: a pattern, what it means, and the message it was seen in. */
export const MESSAGE_TEXTS: readonly {
  readonly pattern: RegExp
  readonly category: FaultCategory
  readonly seen: string
}[] = [
  {
    pattern: /^This model's maximum context length is \d+ tokens/,
    category: 'model_context_overflow',
    seen: "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
  }, // OpenAI, vLLM
  {
    pattern: /^prompt is too long: \d+ tokens > \d+ maximum/,
    category: 'model_context_overflow',
    seen: 'prompt is too long: 213462 tokens > 200000 maximum',
  }, // Anthropic
  {
    pattern: /^the request exceeds the available context size/,
    category: 'model_context_overflow',
    seen: 'the request exceeds the available context size, try increasing it',
  }, // llama.cpp
  {
    pattern: /^input length and `max_tokens` exceed context limit/,
    category: 'model_context_overflow',
    seen: 'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000',
  }, // Anthropic
  {
    pattern: /^Your credit balance is too low to access/,
    category: 'model_quota_exhausted',
    seen: 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.',
  }, // Anthropic: 400 invalid_request_error
  {
    pattern: /^You exceeded your current quota, please check your plan and billing details/,
    category: 'model_quota_exhausted',
    seen: 'You exceeded your current quota, please check your plan and billing details.',
  }, // OpenAI, through proxies that drop its code
]

function categoryOfText(body: unknown): FaultCategory | undefined {
  const message = typeof body === 'string' ? body.trimStart() : bodyMessage(body) // some proxies send only the text
  return message === undefined ? undefined : MESSAGE_TEXTS.find(({ pattern }) => pattern.test(message))?.category
}

function runnerCategory(status: number): FaultCategory {
  if (status === 401 || status === 403) return 'runner_auth_failed'
  if (status === 421) return 'runner_identity_mismatch'
  if (status === 502 || status === 503 || status === 504) return 'runner_unreachable' // a proxy in front of a sleeping sandbox
  return 'runner_protocol_error'
}

function mcpCategory(status: number): FaultCategory {
  if (status === 401 || status === 403) return 'mcp_auth_failed'
  return status >= 500 || status === 408 || status === 429 ? 'mcp_unreachable' : 'mcp_protocol_error'
}

function errorObjects(body: unknown): readonly object[] {
  if (!isReadable(body)) return []
  const error = read(body, 'error')
  const inner = isReadable(error) ? read(error, 'error') : undefined
  return [inner, error, body].filter(isReadable)
}
