/** The commands for MCP servers: `mcp list`, `tools`, `call`, `logs`, `restart`, `login`, `logout`, `import`. */
import type { Command } from 'commander'
import { EXIT_CODES } from '@breakfall/faults'
import type { LoginOptions } from '../commands/mcp-login.ts'
import type { Context } from '../context.ts'
import { type CommonOptions, contextFor } from './context.ts'
import { helpOf } from './help.ts'

export function addMcpCommands(program: Command, done: (exitCode: number) => void): void {
  const mcp = program.command('mcp').description('servers of tools (Model Context Protocol)')
  const add = (
    spec: string,
    about: string,
    act: (context: Context, args: readonly string[], options: LoginOptions) => Promise<number | void>,
    more: (command: Command) => Command = (command) => command,
  ): void => {
    const [name = ''] = spec.split(' ')
    const made = more(mcp.command(spec))
      .description(about)
      .option('--json', 'machine-readable lines on stdout')
      .option('--state-dir <dir>', 'where sessions and journals are kept')
      .addHelpText('after', helpOf(`mcp ${name}`))
    made.action(async () => {
      const context = contextFor(made.opts<CommonOptions>())
      done((await act(context, made.args, made.opts<LoginOptions>())) ?? EXIT_CODES.finished)
      context.out.end()
    })
  }
  add('list', 'list the servers and how they are', async (context) => {
    const { mcpList } = await import('../commands/mcp.ts')
    await mcpList(context)
  })
  add('tools <server>', 'list the tools of a server', async (context, [name = '']) => {
    const { mcpTools } = await import('../commands/mcp.ts')
    await mcpTools(context, name)
  })
  add('call <server> <tool> [arguments]', 'call a tool once', async (context, [name = '', tool = '', given]) => {
    const { mcpCall } = await import('../commands/mcp.ts')
    return mcpCall(context, name, tool, given)
  })
  add('logs <server>', "show a server's last lines", async (context, [name = '']) => {
    const { mcpLogs } = await import('../commands/mcp.ts')
    await mcpLogs(context, name)
  })
  add('restart <server>', 'restart a server, or connect to it again', async (context, [name = '']) => {
    const { mcpRestart } = await import('../commands/mcp.ts')
    await mcpRestart(context, name)
  })
  add(
    'login <server>',
    'log in to a server that asks for it (OAuth)',
    async (context, [name = ''], options) => {
      const { mcpLogin } = await import('../commands/mcp-login.ts')
      await mcpLogin(context, name, options)
    },
    (command) =>
      command
        .option('--client-id <id>', 'your client id, if the server does not register clients automatically')
        .option('--print', 'print the address instead of opening a browser'),
  )
  add('logout <server>', 'forget the login to a server', async (context, [name = '']) => {
    const { mcpLogout } = await import('../commands/mcp-login.ts')
    await mcpLogout(context, name)
  })
  add('import <file>', 'add the servers of a JSON file to your configuration', async (context, [file = '']) => {
    const { mcpImport } = await import('../commands/mcp-import.ts')
    mcpImport(context, file)
  })
}
