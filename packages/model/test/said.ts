/** The text of an answer as a client of either API reads it, from the body of a response. */
import { framesIn } from '../../../test/kit/sse.ts'

type Said = {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string }
    readonly message?: { readonly content?: string }
  }[]
  readonly delta?: { readonly text?: string }
  readonly content?: readonly { readonly text?: string }[]
}

export function saidIn(body: string, isStream: boolean): string {
  if (!isStream) return saidBy(JSON.parse(body))
  return framesIn(body)
    .frames.map(({ data, json }) => (data === '[DONE]' ? '' : saidBy(json)))
    .join('')
}

function saidBy({ choices = [], delta, content = [] }: Said): string {
  const texts = choices.map((choice) => choice.delta?.content ?? choice.message?.content ?? '')
  return [...texts, delta?.text ?? '', ...content.map(({ text = '' }) => text)].join('')
}
