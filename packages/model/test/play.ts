/** Asks a server that plays a script. Returns what a consumer holds and what the server was asked. */
import assert from 'node:assert/strict'
import type { AnswerOptions, AnswerRequest } from '../src/index.ts'
import { ask, type Collected } from './collect.ts'
import { answer, type FakeRequest, type Script, startFakeModel, toolAnswer } from './fake-model.ts'

export const GOOD = answer('Hello', ' world')
export const GOOD_CALL = toolAnswer('bash', '{"command":"ls"}')

export type Played = Collected & { readonly requests: readonly FakeRequest[] }

export async function play(
  script: Script,
  request: Partial<AnswerRequest> = {},
  options: AnswerOptions = {},
): Promise<Played> {
  const model = await startFakeModel(script)
  try {
    return { ...(await ask(model.url, request, options)), requests: model.requests }
  } finally {
    await model.close()
  }
}

/** An answer "Hello" whose stream broke, or never ended, after its finish reason: complete, although its tokens were not counted. */
export function isKept(got: Played): void {
  assert.equal(got.text, 'Hello')
  assert.equal(got.done?.proven, true)
  assert.equal(got.requests.length, 1)
  assert.equal(got.done?.usage.outputTokens.quality, 'estimated')
  assert.deepEqual(got.done?.usage.inputTokens, { value: null, quality: 'unknown' })
}
