/** What a client has to do to play a run: ask, show, run tools, go on. Each peer does it the way its own documentation shows. */

export type Run = {
  /** With `/v1`. */
  readonly baseUrl: string
  readonly model: string
  readonly prompt: string
  readonly stepsMax: number
  readonly bash: (command: string) => string
  readonly signal: AbortSignal
}

/** What a person at the screen would hold in the end: the text of each step, as shown. */
export type Played = { readonly texts: readonly string[] }

export type Player = {
  readonly name: string
  /** What was set beyond the defaults. */
  readonly settings: string
  play(run: Run): Promise<Played>
}

/** The same for everybody: five more tries after the first, and this much silence before a stream counts as dead. */
export const RETRIES_MAX = 5
export const STALL_MS = 1_500

export const BASH = {
  name: 'bash',
  description: 'Runs a command and gives its output.',
  parameters: {
    type: 'object',
    properties: { command: { type: 'string' } },
    required: ['command'],
    additionalProperties: false,
  },
} as const
