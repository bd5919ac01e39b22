/** The words after `npm start --`: a command if the first word names one, otherwise the prompt of a run. Pure. */
import { nearest } from '@breakfall/wire/internal'
import type { Command } from 'commander'
import { cmd, shellQuoted } from '../process/command-name.ts'
import { commonFlagsLast } from './flags.ts'

/**
 * `show 0198` is a command, and so is `show me what this does`, which is refused: a prompt costs money, a refusal does not. A prompt in
 * quotes is one word, and no command has a space in its name. One or two words are also refused if the first is
 * nearly a command: `session list`.
 */
export function startWords(program: Command, input: readonly string[]): readonly string[] {
  const words = commonFlagsLast(input)
  const [first] = words
  if (first === undefined) return ['run']
  return PROGRAM_WORDS.has(first) || isCommand(program, first) || isTypo(program, words) ? words : ['run', ...input]
}

/** Why these words are refused, although the command would take them: they read like a prompt. Undefined if they are clear. */
export function unclearPrompt(input: readonly string[]): string | undefined {
  const [command, ...words] = plainWords(input)
  if (command === 'run' && words.length > 1)
    return `It is unclear where the prompt starts. Nothing was sent. Put it in quotes: ${cmd('run')} ${shellQuoted(words.join(' '))}, or ${asPrompt([command, ...words])}`
  if (command === 'rm' && words.length > 1 && !words.every((word) => SESSION_ID.test(word)))
    return `rm takes ids of sessions, got ${words.join(', ')}. Nothing was deleted. ${howToPrompt(input)}`
  return undefined
}

/** For several words that a command refused. Undefined if it was one, which is a mistake in a command and no prompt. */
export function howToPrompt(input: readonly string[]): string | undefined {
  const words = plainWords(input)
  return words.length < 2 ? undefined : `To send it as a prompt: ${asPrompt(words)}`
}

// ---- details, in the order they are used above ----

/** They are for the program, and not for a run. */
const PROGRAM_WORDS: ReadonlySet<string> = new Set(['help', '--help', '-h', '--version', '-V'])

const isCommand = ({ commands }: Command, word: string): boolean => commands.some((command) => command.name() === word)

function isTypo({ commands }: Command, words: readonly string[]): boolean {
  const [word = '', ...more] = beforeFlags(words)
  const names = commands.map((command) => command.name())
  return more.length <= 1 && /^[a-z]+$/i.test(word) && nearest(word, names) !== undefined
}

const plainWords = (input: readonly string[]): readonly string[] => beforeFlags(commonFlagsLast(input))

/** Values of flags are not counted: they follow the flags. */
function beforeFlags(words: readonly string[]): readonly string[] {
  const flag = words.findIndex((word) => word.startsWith('-') && word !== '-')
  return flag === -1 ? words : words.slice(0, flag)
}

const asPrompt = (words: readonly string[]): string => `${cmd('run')} ${shellQuoted(words.join(' '))}`

const SESSION_ID = /^[0-9a-f-]{4,36}$/i
