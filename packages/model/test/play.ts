/** Asks a server that plays a script, and gives what a consumer holds together with what the server was asked. */
import type { AnswerOptions, AnswerRequest } from '../src/index.ts'
import { ask, type Collected } from './collect.ts'
import { answer, type FakeRequest, type Script, startFakeModel, toolAnswer } from './fake-model.ts'

export const GOOD = answer('Hello', ' world')
export const GOOD_CALL = toolAnswer('bash', '{"command":"ls"}')

export async function play(
  script: Script,
  request: Partial<AnswerRequest> = {},
  options: AnswerOptions = {},
): Promise<Collected & { readonly requests: readonly FakeRequest[] }> {
  const model = await startFakeModel(script)
  try {
    return { ...(await ask(model.url, request, options)), requests: model.requests }
  } finally {
    await model.close()
  }
}
