/** `breakfall mcp`: its commands: flags, help and examples. */
import { command, type CommandFamily } from '../../command-line/command.ts'
import type { LoginOptions } from './login.ts'

export const MCP: CommandFamily = {
  name: 'mcp',
  about: 'servers of tools (Model Context Protocol)',
  commands: [
    command({
      usage: 'list',
      about: 'list the servers and how they are',
      examples: ['breakfall mcp list'],
      run: async (context) => (await import('./mcp.ts')).mcpList(context),
    }),
    command({
      usage: 'tools <server>',
      about: 'list the tools of a server',
      examples: ['breakfall mcp tools files'],
      run: async (context, _options, [name = '']) => (await import('./mcp.ts')).mcpTools(context, name),
    }),
    command({
      usage: 'call <server> <tool> [arguments]',
      about: 'call a tool once',
      examples: ['breakfall mcp call files read_file \'{"path":"/tmp/a"}\''],
      run: async (context, _options, [name = '', tool = '', given]) =>
        (await import('./mcp.ts')).mcpCall(context, name, tool, given),
    }),
    command({
      usage: 'logs <server>',
      about: "show a server's last lines",
      examples: ['breakfall mcp logs files'],
      run: async (context, _options, [name = '']) => (await import('./mcp.ts')).mcpLogs(context, name),
    }),
    command({
      usage: 'restart <server>',
      about: 'restart a server, or connect to it again',
      examples: ['breakfall mcp restart files'],
      run: async (context, _options, [name = '']) => (await import('./mcp.ts')).mcpRestart(context, name),
    }),
    command<LoginOptions>({
      usage: 'login <server>',
      about: 'log in to a server that asks for it (OAuth)',
      examples: [
        'breakfall mcp login docs',
        'breakfall mcp login docs --print             over SSH: open the page yourself',
      ],
      flags: (login) =>
        login
          .option('--client-id <id>', 'your client id, if the server does not register clients automatically')
          .option('--client-secret-env <variable>', 'the environment variable that holds the secret of your client')
          .option('--print', 'print the address instead of opening a browser'),
      run: async (context, options, [name = '']) => (await import('./login.ts')).mcpLogin(context, name, options),
    }),
    command({
      usage: 'logout <server>',
      about: 'forget the login to a server',
      examples: ['breakfall mcp logout docs'],
      run: async (context, _options, [name = '']) => (await import('./login.ts')).mcpLogout(context, name),
    }),
    command({
      usage: 'import <file>',
      about: 'add the servers of a JSON file to your configuration',
      examples: ['breakfall mcp import ~/.config/agent/mcp.json   a file with "mcpServers"'],
      run: async (context, _options, [file = '']) => (await import('./import.ts')).mcpImport(context, file),
    }),
  ],
}
