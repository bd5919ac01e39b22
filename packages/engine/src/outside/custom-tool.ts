/** The user's own tools: a command that reads its arguments as JSON from standard input and runs in the box like `bash`. Pure. */
import type { ToolSpec } from '@breakfall/model'
import type { CustomToolConfig } from '../options.ts'

export function customSpec(name: string, { description, schema }: CustomToolConfig): ToolSpec {
  const parameters = schema ?? { type: 'object', properties: {}, additionalProperties: true }
  return { type: 'function', function: { name, description: description ?? `Runs ${name}.`, parameters } }
}

/** Longer arguments do not fit into the command line of a process. */
export const INPUT_BYTES_MAX = 96 * 1024

/** The command as a shell runs it, with the arguments on its standard input. The same call gives the same text. */
export function customCommand(
  { command }: CustomToolConfig,
  given: Readonly<Record<string, unknown>>,
  key: string,
): string {
  const input = JSON.stringify(given) // one line
  const end = `BREAKFALL_INPUT_${key.replace(/\W/g, '_')}`
  return `${command.map(quoted).join(' ')} <<'${end}'\n${input}\n${end}\n`
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`
