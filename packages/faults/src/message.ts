/**
 * The text of a fault, as three facts: what happened, what Breakfall does or did about it, what you can do. They are kept
 * apart and joined in one place: a conclusion replaces a fact, and no code edits prose.
 */

export type FaultMessage = {
  readonly happened: string
  /** What Breakfall does or did about it. Each decision replaces it: a retry, a park, a stop. */
  readonly action?: string | undefined
  /** What you can do. */
  readonly advice?: string | undefined
}

/** Some of the facts. */
export type MessageFacts = { readonly [F in keyof FaultMessage]?: string | undefined }

/** The one place where the facts become text. A fact that starts in lower case continues the sentence before it. */
export function joinMessage({ happened, action, advice }: FaultMessage): string {
  return [action, advice].reduce<string>((text, fact) => (fact ? joined(text, fact) : text), happened)
}

// ---- details ----

function joined(text: string, fact: string): string {
  const [first = ''] = fact
  if (first !== first.toUpperCase()) return `${text}; ${fact}`
  return ENDS_SENTENCE.test(text) ? `${text} ${fact}` : `${text}. ${fact}`
}

const ENDS_SENTENCE = /[.!?…]$/
