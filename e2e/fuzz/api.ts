/** What the fuzzer knows of one model API. */
import type { RelayApiName } from '@breakfall/model'
import type { Abilities, Answer } from './answer.ts'
import type { Frame, Json, Shape } from './case.ts'
import type { Dice } from './dice.ts'
import type { Said } from './said.ts'

export type Api = {
  readonly name: RelayApiName
  /** On the wire, if it is not server-sent events. */
  readonly shape?: Shape
  readonly abilities: Abilities
  readonly request: (dice: Dice, answer: Answer) => { readonly path: string; readonly body: Json }
  /** The answer as a stream. */
  readonly frames: (dice: Dice, answer: Answer, attempt: number, request: Json) => readonly Frame[]
  /** The answer as one document. */
  readonly whole: (answer: Answer, attempt: number) => Json
  /** That document as the stream that says the same. */
  readonly unfolded: (whole: Json) => readonly Frame[]
  /** What a server sends that continues a text: this text, and what else the answer says. Only where an API can. */
  readonly continued?: (answer: Said, text: string) => readonly Frame[]
  /** The reference reader. */
  readonly read: (frames: readonly Frame[]) => Said
  readonly error: (dice: Dice) => Frame
}
