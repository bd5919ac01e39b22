/** The names that configuration, flags and API share, without the client behind them: cheap to import. */

export const API_NAMES = ['openai-chat', 'openai-responses', 'anthropic-messages'] as const
export type ApiName = (typeof API_NAMES)[number]
/** The relay also knows APIs that the model client does not speak. */
export type RelayApiName = ApiName | 'gemini' | 'bedrock-messages' | 'ollama'

export const PROFILE_NAMES = [
  'generic',
  'openai',
  'azure',
  'anthropic',
  'vllm',
  'sglang',
  'llama-cpp',
  'ollama',
  'lm-studio',
  'deepseek',
  'mistral',
  'openrouter',
] as const
export type ProfileName = (typeof PROFILE_NAMES)[number]

export function isProfileName(name: unknown): name is ProfileName {
  return PROFILE_NAMES.some((known) => known === name)
}

/**
 * What a relay holds back: tool calls until they are complete and proven, the whole answer, or nothing. `auto` holds the whole
 * answer if the request offers tools, but for a limited time, and is otherwise `tools`.
 */
export const HOLDS = ['auto', 'tools', 'answer', 'none'] as const
export type Hold = (typeof HOLDS)[number]

/** Whether a request is repaired that the server refused because of its conversation. */
export const REPAIRS = ['auto', 'never'] as const
export type RepairMode = (typeof REPAIRS)[number]
