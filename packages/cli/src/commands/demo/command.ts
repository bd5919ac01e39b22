/** `breakfall demo`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { isolationFlag, portNumber } from '../../command-line/flags.ts'
import type { DemoOptions } from './demo.ts'

export const DEMO = command<DemoOptions>({
  usage: 'demo',
  about: 'break things and watch them survive: the console, a scripted model, no key',
  examples: ['breakfall demo', 'breakfall demo --plan "rate=0.3"          break a third of all answers'],
  keeps: null,
  flags: (demo) =>
    demo
      .option('--port <port>', 'the port of the console (default: a free one)', portNumber)
      .option('--print', 'only print the address of the console')
      .option('--plan <plan>', 'faults from the start, as for "breakfall chaos" (default: none)')
      .addOption(isolationFlag('process: run commands without a sandbox (default: bwrap)')),
  run: async (context, options) => (await import('./demo.ts')).demoCommand(context, options),
})
