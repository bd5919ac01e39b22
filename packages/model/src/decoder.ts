/** Which reader is for which API. */
import type { ApiName } from './answer.ts'
import { AnthropicMessagesDecoder } from './anthropic-messages.ts'
import { OpenAiChatDecoder } from './openai-chat.ts'
import type { AnswerDecoder, PartHandler } from './parts.ts'

/** With `everyJson`, each frame is parsed and can be had as `json`; otherwise one that only has more text is not. */
export function createDecoder(
  api: ApiName,
  handler: PartHandler,
  nextPartId: () => string,
  everyJson = false,
): AnswerDecoder {
  return api === 'openai-chat'
    ? new OpenAiChatDecoder(handler, nextPartId, !everyJson)
    : new AnthropicMessagesDecoder(handler, nextPartId, !everyJson)
}
