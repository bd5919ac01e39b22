/** What a client has to do to play a run: ask, show, run tools, continue. Each peer does it the way its own documentation shows. */

export type Run = {
  /** With `/v1`. */
  readonly baseUrl: string
  readonly model: string
  readonly prompt: string
  readonly stepsMax: number
  readonly bash: (command: string) => string
  readonly signal: AbortSignal
}

/** What a person at the screen has in the end: the text of each step, as shown; and what the tools did, if they were real. */
export type Played = { readonly texts: readonly string[]; readonly log?: string }

/** `alone` is a package without Breakfall. */
export type Drives = 'library' | 'daemon' | 'gateway' | 'alone'

export type Player = {
  readonly name: string
  /** Which part of Breakfall recovers. */
  readonly drives: Drives
  /** The npm package whose version counts. */
  readonly package: string
  /** What was set beyond the defaults. */
  readonly settings: string
  play(run: Run): Promise<Played>
}

/** The same for all: five retries, and this much silence before a stream counts as dead. */
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
