/** The APIs that the fuzzer speaks. */
import type { RelayApiName } from '@breakfall/model'
import type { Api } from './api.ts'
import { anthropic } from './anthropic.ts'
import { bedrock } from './bedrock.ts'
import { chat } from './chat.ts'
import { gemini } from './gemini.ts'
import { ollama } from './ollama.ts'
import { responses } from './responses.ts'

export const APIS: readonly Api[] = [chat, responses, anthropic, gemini, bedrock, ollama]

export function apiOf(name: RelayApiName): Api {
  const api = APIS.find((one) => one.name === name)
  if (api === undefined) throw new Error(`no fuzzer for ${name}`)
  return api
}
