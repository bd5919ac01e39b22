/**
 * How model servers differ, as rows: what proves that an answer is complete, what to do with an answer that ends without proof,
 * and whether an unfinished text can be continued. The evidence for each row is in `docs/concepts/model-errors.md`.
 */
import type { ProfileName } from './names.ts'

/** How to mark the last assistant message as unfinished, so the model continues it. */
export type PrefillWay =
  | 'none'
  | 'trailing_assistant' // a last message of the assistant is continued
  | 'prefix_flag' // … and carries `prefix: true`
  | 'continue_final_message' // … and the body carries `continue_final_message: true, add_generation_prompt: false`

export type Profile = {
  readonly name: ProfileName
  /** `[DONE]` without a finish reason: accepted as the end (marked unproven unless complete tool calls confirm it), or not. */
  readonly doneMarker: 'accept' | 'refuse'
  /** A clean end without either: an answer of text is accepted and marked unproven. */
  readonly lenient: boolean
  readonly prefill: PrefillWay
  /** The continuation may begin by repeating the text. */
  readonly prefillEcho: boolean
  /** Whether the server accepts `stream_options: {include_usage: true}`. */
  readonly usageOption: boolean
  /** Responses: the events that end an answer. */
  readonly terminalEvents: readonly string[]
  /** Responses: the status inside the terminal event says how the answer ended. If not, the event's name does. */
  readonly statusInsideTerminal: boolean
  /** Responses: the server says when an answer was cut by its token limit. */
  readonly lengthIsVisible: boolean
  /** Responses: events are numbered without holes, so a reader knows the last one it read. */
  readonly numbered: boolean
  /** How to read on after the connection broke, without asking again. */
  readonly reattach: Reattach
}

/** `responses`: `GET /responses/{id}?starting_after=N`, for a request with `background: true`. `llama-replay`: `GET /stream`. */
export type Reattach = 'none' | 'responses' | 'llama-replay'

const TERMINAL = ['response.completed', 'response.incomplete', 'response.failed', 'response.cancelled'] as const

const STRICT = {
  doneMarker: 'refuse',
  lenient: false,
  prefill: 'none',
  prefillEcho: false,
  usageOption: true,
  terminalEvents: TERMINAL,
  statusInsideTerminal: true,
  lengthIsVisible: true,
  numbered: true,
  reattach: 'none',
} as const
/** `response.done` is what proxies of OpenAI's own apps say. */
const WITH_SYNONYM = [...TERMINAL, 'response.done'] as const

export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  // An unknown server: a finish reason or the protocol's own end marker, never a bare end.
  generic: {
    ...STRICT,
    name: 'generic',
    doneMarker: 'accept',
    terminalEvents: WITH_SYNONYM,
    numbered: false,
    reattach: 'responses',
  },
  openai: { ...STRICT, name: 'openai', terminalEvents: WITH_SYNONYM, reattach: 'responses' },
  azure: { ...STRICT, name: 'azure', doneMarker: 'accept', reattach: 'responses' },
  anthropic: { ...STRICT, name: 'anthropic', usageOption: false },
  // Always sends `response.completed`; the status inside says `incomplete`.
  vllm: { ...STRICT, name: 'vllm', prefill: 'continue_final_message', reattach: 'responses' },
  sglang: { ...STRICT, name: 'sglang', prefill: 'continue_final_message' },
  // Some builds never send `[DONE]` and keep the socket open; all of them send a finish reason.
  // Its Responses are neither numbered nor indexed, and say `completed` at the token limit, too.
  'llama-cpp': {
    ...STRICT,
    name: 'llama-cpp',
    prefill: 'trailing_assistant',
    statusInsideTerminal: false,
    lengthIsVisible: false,
    numbered: false,
    reattach: 'llama-replay',
  },
  // Has been seen with a null finish reason throughout. Its Responses always say `completed`.
  ollama: {
    ...STRICT,
    name: 'ollama',
    doneMarker: 'accept',
    lenient: true,
    prefill: 'trailing_assistant',
    statusInsideTerminal: false,
    lengthIsVisible: false,
  },
  'lm-studio': { ...STRICT, name: 'lm-studio', doneMarker: 'accept', numbered: false },
  deepseek: { ...STRICT, name: 'deepseek', prefill: 'prefix_flag' },
  // Rejects unknown fields; repeats the prefix at the start of its answer.
  mistral: { ...STRICT, name: 'mistral', prefill: 'prefix_flag', prefillEcho: true, usageOption: false },
  // Each call may reach another provider, so continuing cannot be relied on.
  openrouter: { ...STRICT, name: 'openrouter', doneMarker: 'accept' },
}

export type ChosenProfile = Profile & {
  /** True if the user, or the server itself, named it. A guess is not enough to continue text by prefill. */
  readonly named: boolean
}

export function chooseProfile(name: ProfileName | undefined, baseUrl: string): ChosenProfile {
  if (name !== undefined) return { ...PROFILES[name], named: true }
  return { ...PROFILES[guess(baseUrl)], named: false }
}

// ---- details ----

const HOSTS: readonly (readonly [suffix: string, profile: ProfileName])[] = [
  ['api.openai.com', 'openai'],
  ['openai.azure.com', 'azure'],
  ['services.ai.azure.com', 'azure'],
  ['api.anthropic.com', 'anthropic'],
  ['api.deepseek.com', 'deepseek'],
  ['api.mistral.ai', 'mistral'],
  ['openrouter.ai', 'openrouter'],
]

function guess(baseUrl: string): ProfileName {
  const host = URL.canParse(baseUrl) ? new URL(baseUrl).hostname : ''
  return HOSTS.find(([suffix]) => host === suffix || host.endsWith(`.${suffix}`))?.[1] ?? 'generic'
}
