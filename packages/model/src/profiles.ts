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
}

const STRICT = { doneMarker: 'refuse', lenient: false, prefill: 'none', prefillEcho: false, usageOption: true } as const

export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  // An unknown server: a finish reason or the protocol's own end marker, never a bare end.
  generic: { ...STRICT, name: 'generic', doneMarker: 'accept' },
  openai: { ...STRICT, name: 'openai' },
  anthropic: { ...STRICT, name: 'anthropic', usageOption: false },
  vllm: { ...STRICT, name: 'vllm', prefill: 'continue_final_message' },
  sglang: { ...STRICT, name: 'sglang', prefill: 'continue_final_message' },
  // Some builds never send `[DONE]` and keep the socket open; all of them send a finish reason.
  'llama-cpp': { ...STRICT, name: 'llama-cpp', prefill: 'trailing_assistant' },
  // Has been seen with a null finish reason throughout.
  ollama: { ...STRICT, name: 'ollama', doneMarker: 'accept', lenient: true, prefill: 'trailing_assistant' },
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
  ['api.anthropic.com', 'anthropic'],
  ['api.deepseek.com', 'deepseek'],
  ['api.mistral.ai', 'mistral'],
  ['openrouter.ai', 'openrouter'],
]

function guess(baseUrl: string): ProfileName {
  const host = URL.canParse(baseUrl) ? new URL(baseUrl).hostname : ''
  return HOSTS.find(([suffix]) => host === suffix || host.endsWith(`.${suffix}`))?.[1] ?? 'generic'
}
