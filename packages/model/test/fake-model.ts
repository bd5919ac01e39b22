/** The fake model server of the test kit, under the names that the tests of this package use. */
export {
  blockJson,
  blockStart,
  blockStop,
  blockText,
  blockThought,
  errorEvent,
  event,
  message,
  messageDelta,
  messageStart,
  messageStop,
  ping,
  textBlock,
  toolMessage,
} from '../../../test/kit/anthropic-frames.ts'
export type { Exchange as FakeRequest } from '../../../test/kit/exchange.ts'
export {
  type ModelServer as FakeModel,
  type Script,
  startModelServer as startFakeModel,
} from '../../../test/kit/model-server.ts'
export {
  answer,
  callMore,
  callStart,
  done,
  finish,
  frame,
  role,
  text,
  thought,
  toolAnswer,
  usage,
} from '../../../test/kit/openai-frames.ts'
export {
  type Act,
  bytes,
  fin,
  forever,
  head,
  json,
  lastChunk,
  pause,
  perform,
  type Play,
  reset as rst,
  silence,
} from '../../../test/kit/plays.ts'

/** One chunk of the body, unchanged. */
export const raw = (text: string): string => text
