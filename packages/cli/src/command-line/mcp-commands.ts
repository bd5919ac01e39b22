/** The commands about servers of tools: `mcp list`, `tools`, `call`, `logs`, `restart`, `import`. */
import type { Command } from 'commander'
import { EXIT_CODES } from '@breakfall/faults'
import type { Context } from '../context.ts'
import { type CommonOptions, contextFor } from './context.ts'
import { helpOf } from './help.ts'

export function addMcpCommands(program: Command, done: (exitCode: number) => void): void {
  const mcp = program.command('mcp').description('servers of tools (Model Context Protocol)')
  const add = (
    spec: string,
    about: string,
    act: (context: Context, args: readonly string[]) => Promise<number | void>,
  ): void => {
    const [name = ''] = spec.split(' ')
    const made = mcp
      .command(spec)
      .description(about)
      .option('--json', 'machine-readable lines on stdout')
      .option('--state-dir <dir>', 'where sessions and journals are kept')
      .addHelpText('after', helpOf(`mcp ${name}`))
    made.action(async () => {
      const context = contextFor(made.opts<CommonOptions>())
      done((await act(context, made.args)) ?? EXIT_CODES.finished)
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
  add('import <file>', 'add the servers of a JSON file to your configuration', async (context, [file = '']) => {
    const { mcpImport } = await import('../commands/mcp-import.ts')
    mcpImport(context, file)
  })
}
