/** `breakfall chaos`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { portNumber } from '../../command-line/flags.ts'
import type { ChaosOptions } from './chaos.ts'

export const CHAOS = command<ChaosOptions>({
  usage: 'chaos',
  about: 'a fault proxy for any HTTP service: prove that your agent survives',
  examples: [
    'breakfall chaos --upstream http://127.0.0.1:8080 --plan "seed=7,rate=0.2,faults=reset+stall:2000"',
    'breakfall chaos --rehearsal --port 8080 --plan "at=2.1:reset"',
    'breakfall chaos --list',
  ],
  keeps: null,
  flags: (chaos) =>
    chaos
      .option('--upstream <url>', 'the service behind the proxy')
      .option('--rehearsal', 'put a scripted model behind the proxy: rehearsal/fix, rehearsal/steps-N, rehearsal/echo')
      .option('--plan <plan>', 'which faults: "seed=7,rate=0.2,faults=reset+stall", or a JSON file')
      .option('--port <port>', 'the port; 0 for a free one', portNumber, 0)
      .option('--list', 'list the faults that a plan can name'),
  run: async (context, options) => (await import('./chaos.ts')).chaosCommand(context, options),
})
