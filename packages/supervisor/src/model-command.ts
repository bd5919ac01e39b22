/** The command of a configured model server. `{port}` in an argument becomes the port of each run. */
import { basename } from 'node:path'
import type { ModelServerSpec } from './model-spec.ts'

export function modelCommand(words: readonly string[]): Pick<ModelServerSpec, 'command' | 'name' | 'args'> {
  const [command = '', ...args] = words
  return {
    command,
    name: `the model server (${basename(command)})`,
    args: ({ port }) => args.map((arg) => arg.replaceAll('{port}', String(port))),
  }
}
