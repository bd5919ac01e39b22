/** A model server that is away for a while: its port refuses connections, or it says that it loads. Then it answers. */
import type { ApiName } from '../src/index.ts'
import { blockText, message, messageStart, textBlock } from '../../../test/kit/anthropic-frames.ts'
import { type ModelServer, type Script, startModelServer } from '../../../test/kit/model-server.ts'
import { answer, role, text } from '../../../test/kit/openai-frames.ts'
import { type Act, head, json, type Play, reset } from '../../../test/kit/plays.ts'
import { messageItem, responded, responseFrames, upToDelta, wholeResponse } from '../../../test/kit/responses-frames.ts'

export const WORDS = ['The quick ', 'brown fox ', 'jumps over ', 'the lazy dog.'] as const
export const ANSWER = WORDS.join('')

/** `mid-stream`: it is there first, and goes away in the middle of an answer. */
export const MOMENTS = ['before content', 'mid-stream'] as const
export type Moment = (typeof MOMENTS)[number]

export type AwayOptions = {
  readonly api: ApiName
  readonly awayMs: number
  readonly moment: Moment
  readonly isStream: boolean
}

export type AwayModel = AsyncDisposable & { readonly url: string }

export async function startAwayModel({ api, awayMs, moment, isStream }: AwayOptions): Promise<AwayModel> {
  const whole = isStream ? STREAMED[api] : json(200, WHOLE[api])
  const half = isStream ? HALF[api] : [head(200, { 'content-type': 'application/json' }), '{"id":']
  let back: Promise<ModelServer> | undefined
  const leave: Act = async (exchange) => {
    await reset(exchange)
    void away()
  }
  const first = await startOnQuietPort(() => [...half, leave])
  const { port, url } = first
  const away = async (): Promise<void> => {
    await first.close()
    back ??= new Promise((resolve) => {
      setTimeout(() => resolve(startModelServer(() => whole, { port })), awayMs)
    })
  }
  if (moment === 'before content') await away()
  return {
    url,
    async [Symbol.asyncDispose]() {
      await first.close()
      await (await back)?.close()
    },
  }
}

// ---- details ----

/**
 * A port that no one takes while the server is away: the system gives out ports from 32768 on, so those below are only taken by
 * programs that ask for one.
 */
async function startOnQuietPort(script: Script): Promise<ModelServer> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await startModelServer(script, { port: quietPort() })
    } catch (error) {
      if (tries === 20) throw error
    }
  }
}

/** Each process has its own ports and takes one after another: two tests side by side never have the same one. */
const quietPort = (): number => 16_384 + ((process.pid * PORTS_OF_A_PROCESS + (taken++ % PORTS_OF_A_PROCESS)) % 16_384)
const PORTS_OF_A_PROCESS = 64
let taken = 0

const STREAMED: Readonly<Record<ApiName, readonly Play[]>> = {
  'openai-chat': answer(...WORDS),
  'openai-responses': responded(...WORDS),
  'anthropic-messages': message(...WORDS),
}

const HALF: Readonly<Record<ApiName, readonly Play[]>> = {
  'openai-chat': [head(), role, text(WORDS[0]), text(WORDS[1])],
  'openai-responses': [head(), ...upToDelta(responseFrames([messageItem(WORDS)]), 2)],
  'anthropic-messages': [head(), messageStart, textBlock(0), blockText(0, WORDS[0]), blockText(0, WORDS[1])],
}

const WHOLE: Readonly<Record<ApiName, object>> = {
  'openai-chat': {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'fake-1',
    choices: [{ index: 0, message: { role: 'assistant', content: ANSWER }, finish_reason: 'stop' }],
  },
  'openai-responses': wholeResponse([messageItem(WORDS)]),
  'anthropic-messages': {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-fake',
    content: [{ type: 'text', text: ANSWER }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 3, output_tokens: 5 },
  },
}
