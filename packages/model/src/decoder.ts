/** Which reader is for which API. */
import type { ApiName } from './answer.ts'
import { AnthropicMessagesDecoder } from './anthropic-messages.ts'
import { OpenAiChatDecoder } from './openai-chat.ts'
import type { AnswerDecoder, PartHandler } from './parts.ts'

export function createDecoder(api: ApiName, handler: PartHandler, nextPartId: () => string): AnswerDecoder {
  return api === 'openai-chat'
    ? new OpenAiChatDecoder(handler, nextPartId)
    : new AnthropicMessagesDecoder(handler, nextPartId)
}
