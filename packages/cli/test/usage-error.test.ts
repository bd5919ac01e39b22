import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommanderError } from 'commander'
import { usageSentence } from '../src/command-line/usage-error.ts'
import { buildProgram } from '../src/commands/index.ts'

/** What commander says about the words, in our words. */
async function sentenceFor(words: string, path: readonly string[] = []): Promise<string> {
  try {
    await buildProgram(() => undefined).parseAsync(words.split(' '), { from: 'user' })
  } catch (error) {
    assert.ok(error instanceof CommanderError, String(error))
    return usageSentence(error, path)
  }
  throw new Error(`${words} was accepted`)
}

test('a mistake on the command line names what is wrong, what was expected and where the help is', async () => {
  const END = 'Nothing was done. For help: breakfall'
  for (const [words, path, says] of [
    ['nonsense', '', `Unknown command 'nonsense'. ${END} --help`],
    ['docter', '', `Unknown command 'docter'. Did you mean doctor? ${END} --help`],
    ['mcp lst', 'mcp', `Unknown command 'lst'. Did you mean list? ${END} mcp --help`],
    ['run --jsn', 'run', `Unknown option '--jsn'. Did you mean --json? ${END} run --help`],
    ['sessions a', 'sessions', `sessions takes no arguments, got a. ${END} sessions --help`],
    ['show a b', 'show', `show takes 1 argument, got a, b. ${END} show --help`],
    ['show', 'show', `Missing required argument <id>. ${END} show --help`],
    ['up --port', 'up', `--port needs a value. ${END} up --help`],
    ['up --port x', 'up', `--port takes a port from 0 to 65535, got x. ${END} up --help`],
    ['gateway --hold z', 'gateway', `--hold takes one of auto, tools, answer, none, got z. ${END} gateway --help`],
    [
      'store foo',
      'store',
      `The argument <action> takes one of migrate, check, adopt, export, import, got foo. ${END} store --help`,
    ],
  ] as const)
    assert.equal(await sentenceFor(words, path === '' ? [] : [path]), says)
})

test('a command by the name that it has in other programs is recognised', async () => {
  for (const [word, meant] of [
    ['ls', 'sessions'],
    ['ps', 'processes'],
    ['start', 'up'],
    ['logs', 'tail'],
  ] as const)
    assert.match(await sentenceFor(word), new RegExp(`Did you mean ${meant}\\?`))
})
