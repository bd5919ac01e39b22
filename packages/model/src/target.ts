/** Where an answer is asked for: the request with one place of the fallback list laid over it, and how to call it. */
import { Fault } from '@breakfall/faults'
import type { AnswerRequest, ApiName, Fallback } from './answer.ts'
import { anthropicBody } from './anthropic-request.ts'
import type { AttemptRequest } from './attempt.ts'
import { isContinuable } from './machine/kept-text.ts'
import { openAiBody } from './openai-request.ts'
import { type ChosenProfile, chooseProfile } from './profiles.ts'
import type { RequiredParameters } from './proof.ts'

export type Target = {
  readonly request: AnswerRequest
  readonly api: ApiName
  readonly profile: ChosenProfile
}

/** The request itself and then each fallback. */
export function targetsOf(request: AnswerRequest, fallback: readonly Fallback[]): readonly Target[] {
  return [{}, ...fallback].map((over: Fallback) => {
    const merged: AnswerRequest = { ...request, ...over }
    // A key is for one place: another address does not get it unless it is given there as well.
    const elsewhere = over.baseUrl !== undefined && over.baseUrl !== request.baseUrl
    return targetOf(
      elsewhere ? { ...merged, apiKey: over.apiKey, headers: over.headers, profile: over.profile } : merged,
    )
  })
}

/** The request as it is made at each place: to the one it names, then to each fallback. */
export function placesOf(request: AnswerRequest, fallback: readonly Fallback[]): readonly AnswerRequest[] {
  return targetsOf(request, fallback).map((target) => target.request)
}

export function targetOf(request: AnswerRequest): Target {
  const profile = chooseProfile(request.profile, request.baseUrl)
  return { request, api: request.api ?? (profile.name === 'anthropic' ? 'anthropic-messages' : 'openai-chat'), profile }
}

/** Prefill is for servers that know a way and that somebody vouches for. */
export const takesPrefill = ({ api, profile }: Pick<Target, 'api' | 'profile'>): boolean =>
  profile.named && profile.prefill !== 'none' && api === 'openai-chat'

/** Whether this model can continue this text, which broke off. */
export const canContinue = (request: AnswerRequest, text: string): boolean =>
  takesPrefill(targetOf(request)) && isContinuable(text)

/** The HTTP request; with `kept`, one that asks to go on after that text. */
export function attemptRequest(target: Target, kept: string): AttemptRequest {
  const { request, api, profile } = target
  const isOpenAi = api === 'openai-chat'
  return {
    method: 'POST',
    url: joinUrl(request.baseUrl, isOpenAi ? 'chat/completions' : 'messages'),
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      'accept-encoding': 'identity',
      'user-agent': 'breakfall',
      ...(isOpenAi ? openAiAuth(request.apiKey) : anthropicAuth(request.apiKey)),
      ...lowerCased(request.headers),
    },
    body: written(() => (isOpenAi ? openAiBody(request, profile, kept) : anthropicBody(request, kept))),
  }
}

/** `path` under the base, whose query string stays (Azure's `api-version`). Throws what `URL` throws. */
export function joinUrl(baseUrl: string, path: string): string {
  const url = new URL(baseUrl)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`
  return url.href
}

/** Of the tools that are well formed; the server judges the others. */
export function requiredParameters(request: AnswerRequest): RequiredParameters {
  const tools: readonly unknown[] = Array.isArray(request.tools) ? request.tools : []
  return new Map(
    tools
      .map((tool) => (tool as AnswerTool | null)?.function)
      .filter((tool) => tool !== undefined)
      .map(({ name, parameters }) => [name, requiredOf(parameters)] as const),
  )
}

export function requiredOf(schema: unknown): readonly string[] {
  const required =
    typeof schema === 'object' && schema !== null ? (schema as { required?: unknown }).required : undefined
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
}

// ---- details ----

type AnswerTool = NonNullable<AnswerRequest['tools']>[number]

/** The body as JSON. What cannot be written (a circle, messages that are no list) is the caller's mistake, and said so. */
function written(build: () => object): string {
  try {
    return JSON.stringify(build())
  } catch (cause) {
    const [detail] = (cause instanceof Error ? cause.message : String(cause)).split('\n')
    throw new Fault('invalid_request', { phase: 'connect', facts: { name: 'the request to the model', detail }, cause })
  }
}

const openAiAuth = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { authorization: `Bearer ${key}` }

const anthropicAuth = (key: string | undefined): Record<string, string> => ({
  'anthropic-version': '2023-06-01',
  ...(key === undefined ? {} : { 'x-api-key': key }),
})

const lowerCased = (headers: Readonly<Record<string, string>> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
