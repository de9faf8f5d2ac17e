// Compiles the forwarder of OpenZeppelin's and the counter that is given: prints their code.
const fs = require("fs");
const path = require("path");
const [solcFolder, zeppelin, counter] = process.argv.slice(1).filter((word) => word !== "--");
const solc = require(path.resolve(solcFolder));
const forwarder = "@openzeppelin/contracts/metatx/ERC2771Forwarder.sol";
const read = (name) => {
  const inside = name.replace("@openzeppelin/contracts/", "");
  try {
    return { contents: fs.readFileSync(path.join(zeppelin, inside), "utf8") };
  } catch (error) {
    return { error: String(error) };
  }
};
const input = {
  language: "Solidity",
  sources: { "Counter.sol": { content: counter }, [forwarder]: { content: read(forwarder).contents } },
  settings: {
    optimizer: { enabled: true, runs: 200 },
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
const errors = (output.errors || []).filter((one) => one.severity === "error");
if (errors.length > 0) {
  console.error(errors.map((one) => one.formattedMessage).join("\n"));
  process.exit(1);
}
const code = (file, name) => "0x" + output.contracts[file][name].evm.bytecode.object;
console.log(JSON.stringify({
  counter: code("Counter.sol", "Counter"),
  forwarder: code(forwarder, "ERC2771Forwarder"),
}));
