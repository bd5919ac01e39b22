/** Which reader is for which API. */
import type { ApiName } from './answer.ts'
import { AnthropicMessagesDecoder } from './anthropic-messages.ts'
import { OpenAiChatDecoder } from './openai-chat.ts'
import type { AnswerDecoder, PartHandler } from './parts.ts'

export type DecoderOptions = {
  /** Each frame is parsed and can be had as `json`; otherwise one that only has more text is not. */
  readonly everyJson?: boolean
  /** How many choices were asked for: each of them has to finish. */
  readonly choices?: number
}

export function createDecoder(
  api: ApiName,
  handler: PartHandler,
  nextPartId: () => string,
  options: DecoderOptions = {},
): AnswerDecoder {
  const { everyJson = false, choices = 1 } = options
  return api === 'openai-chat'
    ? new OpenAiChatDecoder(handler, nextPartId, !everyJson, choices)
    : new AnthropicMessagesDecoder(handler, nextPartId, !everyJson)
}
