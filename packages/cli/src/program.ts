/** Runs one command: reads the arguments, reports a failure once, and returns the exit code. */
import { EXIT_CODES, exitCodeOf, Fault, faultFrom } from '@breakfall/faults'
import { type Command, CommanderError } from 'commander'
import { commonFlagsLast } from './command-line/flags.ts'
import { howToPrompt, startWords, unclearPrompt } from './command-line/npm-start.ts'
import { usageSentence } from './command-line/usage-error.ts'
import { buildProgram, resultFieldsOf } from './commands/index.ts'
import { asTyped, NPM_START } from './process/command-name.ts'
import { onSignal } from './process/signals.ts'
import { isForLackOfSandbox, WITHOUT_SANDBOX } from './render/fault-help.ts'
import { exitCancelled } from './terminal/interrupt.ts'
import { Output } from './terminal/output.ts'

export async function main(argv: readonly string[]): Promise<number> {
  let exitCode: number = EXIT_CODES.finished
  const program = buildProgram((code) => {
    exitCode = code
  })
  const npmWords = wordsAfterNpmStart(argv)
  const words = npmWords === undefined ? commonFlagsLast(argv.slice(2)) : startWords(program, npmWords)
  const json = beforeDashes(words).includes('--json')
  const out = new Output({ json, resultFields: resultFieldsOf(words[0]) })
  onSignal((signal) => exitCancelled(signal, out))
  try {
    refuseIfUnclear(npmWords)
    await program.parseAsync(hasKnownCommand(program, words) ? words : words.filter((word) => !isHelp(word)), {
      from: 'user',
    })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return usageError(error, pathOf(program, words), out, npmWords)
    return report(faultFrom(error), out)
  }
}

// ---- details, in the order they are used above ----

/** Undefined if the program was started by its own name. */
const wordsAfterNpmStart = ([, , first, ...others]: readonly string[]): readonly string[] | undefined =>
  first === NPM_START ? others : undefined

/** Words after `--` are arguments, even if they look like flags. */
const beforeDashes = (words: readonly string[]): readonly string[] =>
  words.includes('--') ? words.slice(0, words.indexOf('--')) : words

function refuseIfUnclear(npmWords: readonly string[] = []): void {
  const error = unclearPrompt(npmWords)
  if (error !== undefined) throw new Fault('invalid_request', { error })
}

const isHelp = (word: string): boolean => word === '--help' || word === '-h'

/** `--help` with an unknown command would hide the mistake, so the flag is dropped and the mistake reported. */
function hasKnownCommand(program: Command, words: readonly string[]): boolean {
  let command: Command | undefined = program
  for (const word of words.filter((one) => !one.startsWith('-'))) {
    if (word === 'help' || command.commands.length === 0) return true
    command = command.commands.find((child) => child.name() === word)
    if (command === undefined) return false
  }
  return true
}

/** The command that was called, word by word, as far as it exists. */
function pathOf({ commands }: Command, [name, ...others]: readonly string[]): readonly string[] {
  const command = commands.find((child) => child.name() === name)
  return command === undefined ? [] : [command.name(), ...pathOf(command, others)]
}

function usageError(
  error: CommanderError,
  path: readonly string[],
  out: Output,
  npmWords: readonly string[] = [],
): number {
  if (error.exitCode === 0) return EXIT_CODES.finished // it was asked for help or the version
  if (error.code === 'commander.help') return needsCommand(path, out)
  return report(new Fault('invalid_request', { error: usageSentence(error, path, howToPrompt(npmWords)) }), out)
}

/** `breakfall mcp` alone: its help has been printed, so only programs need a sentence. */
function needsCommand(path: readonly string[], out: Output): number {
  const error = `${['breakfall', ...path].join(' ')} needs a command. Nothing was done.`
  if (out.json) out.result({ outcome: 'failed', fault: new Fault('invalid_request', { error }).report })
  return EXIT_CODES.usage
}

/** One report per failure: a result line for programs on stdout, a sentence for people on stderr. */
function report(fault: Fault, out: Output): number {
  if (out.json) out.result({ outcome: fault.category === 'cancelled' ? 'cancelled' : 'failed', fault: fault.report })
  out.say(`breakfall: ${asTyped(fault.error)}`)
  if (fault.errorRaw !== fault.error) out.say(`  ${fault.category}: ${fault.errorRaw}`)
  if (isForLackOfSandbox(fault)) out.say(`  ${WITHOUT_SANDBOX}`)
  return exitCodeOf(fault.report)
}
