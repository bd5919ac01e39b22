/**
 * How model servers differ, as rows: what proves that an answer is complete, what to do with one that ends without proof,
 * and whether an unfinished text can be continued. Where each row comes from stands in `docs/concepts/model-errors.md`.
 */

export const PROFILE_NAMES = [
  'generic',
  'openai',
  'anthropic',
  'vllm',
  'sglang',
  'llama-cpp',
  'ollama',
  'deepseek',
  'mistral',
  'openrouter',
] as const
export type ProfileName = (typeof PROFILE_NAMES)[number]

/** How the last assistant message is marked as unfinished, so that the model goes on inside it. */
export type PrefillWay =
  | 'none'
  | 'trailing_assistant' // a last message of the assistant is continued
  | 'prefix_flag' // … and carries `prefix: true`
  | 'continue_final_message' // … and the body carries `continue_final_message: true, add_generation_prompt: false`

export type Profile = {
  readonly name: ProfileName
  /** `[DONE]` without a finish reason: taken as the end (marked unproven unless whole tool calls stand behind it), or not. */
  readonly doneMarker: 'accept' | 'refuse'
  /** A clean end without anything: an answer of text is taken and marked unproven. */
  readonly lenient: boolean
  readonly prefill: PrefillWay
  /** The continuation may begin with the text that it continues. */
  readonly prefillEcho: boolean
  /** Whether the server takes `stream_options: {include_usage: true}`. */
  readonly usageOption: boolean
}

const STRICT = { doneMarker: 'refuse', lenient: false, prefill: 'none', prefillEcho: false, usageOption: true } as const

export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  // Nobody knows who it is: a finish reason or the protocol's own end marker, never a bare end.
  generic: { ...STRICT, name: 'generic', doneMarker: 'accept' },
  openai: { ...STRICT, name: 'openai' },
  // Prefill was removed with the 4.6 models and is refused there, so it is not offered at all.
  anthropic: { ...STRICT, name: 'anthropic', usageOption: false },
  vllm: { ...STRICT, name: 'vllm', prefill: 'continue_final_message' },
  sglang: { ...STRICT, name: 'sglang', prefill: 'continue_final_message' },
  // Some builds never send `[DONE]` and keep the socket open; the finish reason is there in all of them.
  'llama-cpp': { ...STRICT, name: 'llama-cpp', prefill: 'trailing_assistant' },
  // Has been seen with a null finish reason throughout.
  ollama: { ...STRICT, name: 'ollama', doneMarker: 'accept', lenient: true, prefill: 'trailing_assistant' },
  deepseek: { ...STRICT, name: 'deepseek', prefill: 'prefix_flag' },
  // Refuses fields that it does not know; repeats the prefix at the start of its answer.
  mistral: { ...STRICT, name: 'mistral', prefill: 'prefix_flag', prefillEcho: true, usageOption: false },
  // Which provider answers changes from call to call, so nothing is promised about continuing.
  openrouter: { ...STRICT, name: 'openrouter', doneMarker: 'accept' },
}

export type ChosenProfile = Profile & {
  /** True where somebody named it, if only the server itself. Continuing by prefill is for servers that somebody vouches for. */
  readonly named: boolean
}

export function chooseProfile(name: ProfileName | undefined, baseUrl: string): ChosenProfile {
  if (name !== undefined) return { ...PROFILES[name], named: true }
  return { ...PROFILES[guess(baseUrl)], named: false }
}

export function isProfileName(name: unknown): name is ProfileName {
  return PROFILE_NAMES.some((known) => known === name)
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
