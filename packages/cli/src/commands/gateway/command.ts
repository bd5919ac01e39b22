/** `breakfall gateway`: flags, help and examples. */
import { Option } from 'commander'
import { HOLDS, PROFILE_NAMES, REPAIRS } from '@breakfall/model/names'
import { command } from '../../command-line/command.ts'
import { addPolicyFlags, collect, portNumber, wholeNumber } from '../../command-line/flags.ts'
import type { GatewayOptions } from './gateway.ts'

export const GATEWAY = command<GatewayOptions>({
  usage: 'gateway',
  about: "a proxy that makes any agent's model streams survive",
  examples: [
    'breakfall gateway --upstream http://127.0.0.1:8080/v1 --port 4000',
    'breakfall gateway --upstream http://127.0.0.1:8080/v1 --hold answer --watch',
  ],
  keeps: null,
  flags: (gateway) =>
    addPolicyFlags(
      gateway
        .option('--upstream <url>', 'the model server (repeatable: the next ones are fallbacks)', collect)
        .option('--port <port>', 'the port (default: a free one)', portNumber)
        .option('--host <address>', 'the address to bind', '127.0.0.1')
        .addOption(new Option('--hold <what>', 'what to hold back until it is complete (default: auto)').choices(HOLDS))
        .addOption(
          new Option('--empty <what>', 'what to do with an answer without text or call (default: ask-again)').choices([
            'ask-again',
            'accept',
          ]),
        )
        .addOption(
          new Option('--repair <when>', 'whether to repair a refused conversation (default: auto)').choices(REPAIRS),
        )
        .option(
          '--stop-loops <n>',
          'refuse a request that repeats a call with the same result so often (default: only report it)',
          wholeNumber,
        )
        .addOption(new Option('--profile <profile>', 'what the upstream supports').choices(PROFILE_NAMES))
        .option(
          '--token-file <file>',
          'require this token in x-breakfall-token; needed unless it binds loopback; created if missing',
        )
        .option('--allow-host <name>', 'a host name that requests may use (repeatable)', collect)
        .option('--watch', 'show live streams, faults and recoveries'),
      'request',
    ),
  run: async (context, options) => (await import('./gateway.ts')).gatewayCommand(context, options),
})
