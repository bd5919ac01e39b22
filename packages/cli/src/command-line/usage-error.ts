/** A mistake on the command line as a sentence in the style of every other error: what is wrong, what was expected, where the help is. Pure. */
import type { CommanderError } from 'commander'
import { Fault } from '@breakfall/faults'
import { cmd } from '../process/command-name.ts'

/**
 * `path`: the command that was meant, such as `mcp list`, word by word; empty if there is none. `howToPrompt`: said if the words that
 * came with the command were refused, because they may have been meant as a prompt.
 */
export function usageSentence(
  { message }: Pick<CommanderError, 'message'>,
  path: readonly string[],
  howToPrompt?: string,
): string {
  const [first = '', ...rest] = message.replace(/^error: /, '').split('\n')
  const guess = rest.map((line) => / mean (.*)\?/.exec(line)?.[1]).find((words) => words !== undefined)
  const meant = otherName(first) ?? guess // `start` is near to `store`, and means `up`
  const help = cmd([...path, '--help'].join(' '))
  return [
    `${capitalised(inOurWords(first)).replace(/\.$/, '')}.`,
    ...(meant === undefined ? [] : [`Did you mean ${meant}?`]),
    'Nothing was done.',
    ...(howToPrompt !== undefined && ABOUT_WORDS.test(first) ? [`${howToPrompt}.`] : []),
    `For help: ${help}`,
  ].join(' ')
}

/** A usage error that the command finds, not the parser. */
export const usageFault = (error: string): Fault => new Fault('invalid_request', { error, errorRaw: error })

// ---- details, in the order they are used above ----

const ABOUT_WORDS = /^(?:too many arguments|unknown command|command-argument)/

/** Names that these commands have in other programs. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ask: 'run',
  chat: 'run',
  check: 'doctor',
  console: 'open',
  daemon: 'up',
  delete: 'rm',
  events: 'tail',
  history: 'sessions',
  init: 'config example --write',
  kill: 'cancel',
  list: 'sessions',
  log: 'tail',
  logs: 'tail',
  ls: 'sessions',
  proxy: 'gateway',
  ps: 'processes',
  rehearsal: 'run --rehearsal',
  remove: 'rm',
  restore: 'undo',
  revert: 'undo',
  serve: 'up',
  session: 'sessions',
  start: 'up',
  status: 'sessions',
  stop: 'cancel',
  top: 'processes',
  version: '--version',
}

function otherName(sentence: string): string | undefined {
  const [, word = ''] = /^unknown command '(.*)'$/.exec(sentence) ?? []
  return Object.hasOwn(OTHER_NAMES, word) ? OTHER_NAMES[word] : undefined
}

/** Names the option, what was expected and what came. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/ argument '(.*)' is invalid\. Allowed choices are (.*)\.$/s, ' takes one of $2, got $1'],
  [/ argument '(.*)' is invalid\. (.*)$/s, ' takes $2, got $1'],
  [/ argument missing$/, ' needs a value'],
  [/^option '(?:-\w, )?(--[\w-]+)[^']*'/, '$1'],
  [
    /^command-argument value '(.*)' is invalid for argument '(.*)'\. Allowed choices are (.*)\.$/s,
    'the argument <$2> takes one of $3, got $1',
  ],
  [/^missing required argument '(.*)'$/, 'missing required argument <$1>'],
  [/^too many arguments for '(.*)'\. Expected 0 arguments but got \d+: (.*)\.$/s, '$1 takes no arguments, got $2'],
  [/^too many arguments for '(.*)'\. Expected (\d+ arguments?) but got \d+: (.*)\.$/s, '$1 takes $2, got $3'],
]

const inOurWords = (sentence: string): string =>
  WORDS.reduce((text, [pattern, words]) => text.replace(pattern, words), sentence)

/** An option keeps its dashes, a command its name. */
const capitalised = (sentence: string): string =>
  /^(?:unknown|missing|the) /.test(sentence) ? `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}` : sentence
