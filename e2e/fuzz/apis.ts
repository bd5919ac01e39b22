/** The APIs that the fuzzer speaks. */
import type { RelayApiName } from '@breakfall/model'
import type { Api } from './api.ts'
import { chat } from './chat.ts'

export const APIS: readonly Api[] = [chat]

export function apiOf(name: RelayApiName): Api {
  const api = APIS.find((one) => one.name === name)
  if (api === undefined) throw new Error(`no fuzzer for ${name}`)
  return api
}
