/** Where an answer is asked for: the request, overlaid by one entry of the fallback list, and how to call it. */
import { Fault } from '@breakfall/faults'
import { messageOf } from '@breakfall/faults/internal'
import type { AnswerRequest, Fallback } from '../contract/answer.ts'
import type { AttemptRequest } from './attempt.ts'
import { bodyBytes } from '../lib/body-bytes.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { isObject, objectsIn } from '../lib/json.ts'
import { isContinuable } from '../machine/kept-text.ts'
import type { ApiName, RelayApiName } from '../contract/names.ts'
import { type ChosenProfile, chooseProfile } from '../contract/profiles.ts'
import type { RequiredParameters } from '../dialects/proof.ts'

export type Target = {
  readonly request: AnswerRequest
  readonly api: ApiName
  readonly profile: ChosenProfile
}

/** The request itself and then each fallback. */
export function targetsOf(request: AnswerRequest, fallback: readonly Fallback[]): readonly Target[] {
  return [{}, ...fallback].map((over: Fallback) => {
    const merged: AnswerRequest = { ...request, ...over }
    // A key belongs to one server, and so does leave to store answers: another address gets them only if they are named there.
    const elsewhere = over.baseUrl !== undefined && over.baseUrl !== request.baseUrl
    return targetOf(
      elsewhere
        ? {
            ...merged,
            apiKey: over.apiKey,
            headers: over.headers,
            profile: over.profile,
            background: over.background,
          }
        : merged,
    )
  })
}

export function targetOf(request: AnswerRequest): Target {
  const profile = chooseProfile(request.profile, request.baseUrl)
  return { request, api: request.api ?? (profile.name === 'anthropic' ? 'anthropic-messages' : 'openai-chat'), profile }
}

/** Whether the server can continue an unfinished text: the API has a way, and the user named a profile that knows it. */
export const takesPrefill = ({ api, profile }: { readonly api: RelayApiName } & Pick<Target, 'profile'>): boolean =>
  profile.named && profile.prefill !== 'none' && DIALECTS[api].withPrefill !== undefined

/** Whether the answer is asked for in the background, so that its rest can be read after a break. */
export const isBackground = ({ api, profile, request }: Target): boolean =>
  request.background === true && api === 'openai-responses' && profile.reattach === 'responses'

/** Whether the server can continue this unfinished text. */
export const canContinue = (target: Target, text: string): boolean => takesPrefill(target) && isContinuable(text)

/** The HTTP request. With `prefill`, it asks the server to continue that text. */
export function attemptRequest({ request, api, profile }: Target, prefill: string): AttemptRequest {
  const { path, auth, body, withPrefill } = DIALECTS[api]
  return {
    url: joinUrl(request.baseUrl, path),
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      'accept-encoding': 'identity',
      'user-agent': 'breakfall',
      ...auth(request.apiKey),
      ...lowerCased(request.headers),
    },
    body: written(() => {
      const plain = body(request, profile)
      return prefill === '' || withPrefill === undefined ? plain : withPrefill(plain, profile, prefill)
    }),
  }
}

/** `path` under the base URL, whose query string stays (Azure's `api-version`). Throws what `URL` throws. */
export function joinUrl(baseUrl: string, path: string): string {
  const url = new URL(baseUrl)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`
  return url.href
}

/** Required parameters of each well-formed tool; the server judges the others. */
export function requiredParameters(request: AnswerRequest): RequiredParameters {
  const tools = objectsIn(request.tools).map((tool) => tool['function'])
  return new Map(
    objectsIn(tools).flatMap(({ name, parameters }) =>
      typeof name === 'string' ? [[name, requiredOf(parameters)] as const] : [],
    ),
  )
}

export function requiredOf(schema: unknown): readonly string[] {
  const required = isObject(schema) ? schema['required'] : undefined
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
}

// ---- details ----

/** A body that cannot be serialised (a cycle, messages that are not a list) is the caller's mistake. */
function written(build: () => object): readonly Buffer[] {
  try {
    return bodyBytes(build())
  } catch (cause) {
    const [detail] = messageOf(cause).split('\n')
    throw new Fault('invalid_request', { phase: 'connect', facts: { name: 'the request to the model', detail }, cause })
  }
}

const lowerCased = (headers: Readonly<Record<string, string>> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
