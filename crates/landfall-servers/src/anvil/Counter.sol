// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

import "@openzeppelin/contracts/metatx/ERC2771Context.sol";

/// Counts, for whoever calls, through the forwarder that it trusts or without.
contract Counter is ERC2771Context {
    uint256 public count;
    mapping(address => uint256) public countOf;

    constructor(address forwarder) ERC2771Context(forwarder) {}

    function increment() external {
        count += 1;
        countOf[_msgSender()] += 1;
    }

    function refuse(string calldata why) external pure {
        revert(why);
    }
}
