/** Shell completion from the command tree itself, so that it cannot know other commands than there are. */
import type { Command } from 'commander'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

type Node = { readonly path: readonly string[]; readonly words: readonly { word: string; about: string }[] }

export function completionScript(shell: Shell, program: Command): string {
  const nodes = walk(program, [])
  switch (shell) {
    case 'bash':
      return bash(nodes)
    case 'zsh':
      return `#compdef breakfall\nautoload -U +X bashcompinit && bashcompinit\n${bash(nodes)}`
    case 'fish':
      return fish(nodes)
  }
}

// ---- details ----

function walk(command: Command, path: readonly string[]): readonly Node[] {
  const visible = command.commands.filter((child) => !(child as unknown as { _hidden?: boolean })._hidden)
  const words = [
    ...visible.map((child) => ({ word: child.name(), about: child.description() })),
    ...command.options
      .filter((option) => option.long !== undefined && !option.hidden)
      .map((option) => ({ word: option.long ?? '', about: option.description })),
  ]
  return [{ path, words }, ...visible.flatMap((child) => walk(child, [...path, child.name()]))]
}

function bash(nodes: readonly Node[]): string {
  const cases = nodes.map(
    ({ path, words }) => `    '${path.join(' ')}') words='${words.map(({ word }) => word).join(' ')} --help' ;;`,
  )
  return `_breakfall() {
  local words='' path='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) path="\${path:+$path }$word" ;; esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=( $(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}") )
}
complete -o default -F _breakfall breakfall
`
}

function fish(nodes: readonly Node[]): string {
  const quote = (text: string): string => `'${text.replace(/['\\]/g, (c) => `\\${c}`)}'`
  return (
    nodes
      .flatMap(({ path, words }) => {
        const when = path.length === 0 ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${path.at(-1)}`
        return words.map(({ word, about }) => {
          const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${word}`
          return `complete -c breakfall -n ${quote(when)} ${what} -d ${quote(about)}`
        })
      })
      .join('\n') + '\n'
  )
}
