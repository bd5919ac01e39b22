/** Asks a server that plays a script. Returns what a consumer holds and what the server was asked. */
import assert from 'node:assert/strict'
import type { AnswerOptions, AnswerRequest } from '../src/index.ts'
import { ask, type Collected } from './collect.ts'
import { type Exchange } from '../../../test/kit/exchange.ts'
import { type Script, startModelServer } from '../../../test/kit/model-server.ts'
import { answer, toolAnswer } from '../../../test/kit/openai-frames.ts'

export const GOOD = answer('Hello', ' world')
export const GOOD_CALL = toolAnswer('bash', '{"command":"ls"}')

export type Played = Collected & { readonly requests: readonly Exchange[] }

export async function play(
  script: Script,
  request: Partial<AnswerRequest> = {},
  options: AnswerOptions = {},
): Promise<Played> {
  const model = await startModelServer(script)
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
