/** The words after `npm start --`: a command if they read like one, otherwise the prompt of a run. Pure. */
import type { Argument, Command } from 'commander'
import { nearest } from '@breakfall/wire/internal'
import { commonFlagsLast } from './flags.ts'

/**
 * `show 0198` and `mcp list` are commands; `show me what this does` is a prompt, and so is everything in quotes with a space. A single
 * word that is nearly a command is no prompt: it is passed on as the command that it is not, and refused.
 */
export function startWords(program: Command, given: readonly string[]): readonly string[] {
  const words = commonFlagsLast(given)
  const [first, ...others] = words
  if (first === undefined) return ['run']
  return first === 'help' || isCommand(program, first, others) || isTypo(program, words) ? words : ['run', ...given]
}

// ---- details, in the order they are used above ----

function isCommand(parent: Command, name: string, others: readonly string[]): boolean {
  const command = parent.commands.find((child) => child.name() === name)
  if (command === undefined) return false
  const words = beforeFlags(others)
  const [first, ...more] = words
  if (command.commands.length === 0) return fits(command.registeredArguments, words)
  return first === undefined || first === 'help' || isCommand(command, first, more)
}

function isTypo({ commands }: Command, words: readonly string[]): boolean {
  const [word = ''] = words
  const names = commands.map((command) => command.name())
  return words.length === 1 && /^[a-z]+$/i.test(word) && !names.includes(word) && nearest(word, names) !== undefined
}

/** Values of flags are not counted: they follow the flags. */
function beforeFlags(words: readonly string[]): readonly string[] {
  const flag = words.findIndex((word) => word.startsWith('-') && word !== '-')
  return flag === -1 ? words : words.slice(0, flag)
}

/** With an argument missing it is still a command; with one too many it is a prompt. */
function fits(takes: readonly Argument[], words: readonly string[]): boolean {
  const isList = takes.at(-1)?.variadic === true && words.every((word) => SESSION_ID.test(word))
  if (words.length > takes.length && !isList) return false
  return words.every((word, index) => takes[index]?.argChoices?.includes(word) ?? true)
}

const SESSION_ID = /^[0-9a-f-]{4,36}$/i
