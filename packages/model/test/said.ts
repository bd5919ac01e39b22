/** The text of an answer as a client of any API reads it, from the body of a response. */
import { framesIn } from '../../../test/kit/sse.ts'

type Said = {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string }
    readonly message?: { readonly content?: string }
  }[]
  readonly delta?: { readonly text?: string } | string
  readonly content?: readonly { readonly text?: string }[]
  readonly output?: readonly { readonly content?: readonly { readonly text?: string }[] }[]
}

export function saidIn(body: string, isStream: boolean): string {
  if (!isStream) return saidBy(JSON.parse(body))
  return framesIn(body)
    .frames.map(({ data, json }) => (data === '[DONE]' ? '' : saidBy(json)))
    .join('')
}

function saidBy({ choices = [], delta, content = [], output = [] }: Said): string {
  const texts = choices.map((choice) => choice.delta?.content ?? choice.message?.content ?? '')
  const grown = typeof delta === 'string' ? delta : (delta?.text ?? '')
  const blocks = [...content, ...output.flatMap((item) => item.content ?? [])]
  return [...texts, grown, ...blocks.map(({ text = '' }) => text)].join('')
}
